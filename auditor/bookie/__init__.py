"""Talk to bookies and listers in BookKeeper's protocol. The only home of sockets to bookies.

`lane` is the door: one bounded conversation with one bookie at one look. It leads to
`conversation`, `exchange` and `link`. `listers` has the same door for bookies with a lister.
"""
