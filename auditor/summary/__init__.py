"""Count a run: every ledger exactly once, copies, marks, costs, and the outcome.

`run_summary` puts the parts together. Counts come only from written tables.
"""
