"""The stages of a run. Each is stated once: its ledgers, its work on a batch of rows, its table.

`stages` states them. An `Executor` maps them over their rows: `local` in this process,
`auditor.spark.executor` in Spark tasks. The work is in `reading`, `asking` and `steps`.
"""
