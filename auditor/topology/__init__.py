"""Find where bookies are: their network locations, from a table, a rack map or a script.

`locating` asks the `sources` in order.
"""
