"""Judge a ledger in closed form: what the contract promises, and what bookies say they hold.

`ledger` puts the parts together; begin there. `coverage` is the durability contract, `recheck`
decides how many looks a verdict needs. Each module says what it verifies, and what it does not.
"""
