"""Gather and judge what is not about a single ledger: bookies, the cluster, what topics need.

Each module reads written evidence and returns findings, or what could not be decided. `bookies`
has silent and lost bookies, `on_cluster` the cluster, `reference_findings` Pulsar's topics.
"""
