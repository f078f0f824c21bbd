"""Talk to bookies and listers in BookKeeper's protocol. The only home of sockets to bookies.

Other packages begin with `lane`: one bounded conversation with one bookie at one look, made of
`conversation`, `exchange` and `link`. `listers` has the same interface for bookies with a lister.
"""
