"""Count a run: every ledger exactly once, findings on the cluster, causes, and the outcome.

`run_summary` puts the parts together. Counts come only from written tables.
"""
