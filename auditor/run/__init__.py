"""One whole audit: `pipeline` for a cluster, `single_ledgers` and `topics` for a few, `replay`.

Begin with `pipeline`. Both take `looks`. `conclusion` ends a run.
"""
