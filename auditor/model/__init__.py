"""Frozen values: ledgers, what bookies said, the cluster, findings, verdicts, summaries.

Nothing here does any input or output.
"""
