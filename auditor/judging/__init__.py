"""From evidence to a verdict, or to what must still be asked.

`settle` is the one function that `run`, `ledger` and `replay` call; begin there.
"""
