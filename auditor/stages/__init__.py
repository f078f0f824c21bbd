"""The stages of a run, each stated once: which ledgers it takes, the work on a batch of rows, the
table it writes.

`stages` states them. An `Executor` maps them over their rows: `local` in this process,
`auditor.spark.executor` in Spark tasks. The work is in `reading`, `asking` and `steps`.
"""
