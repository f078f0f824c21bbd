"""Keep what was read and judged: tables, rows, the run's directory, its journal, its lock.

`schemas` defines what each table holds. `rows` and `gathered` convert values to rows and back.
`run_directory` and `output_directory` know where they are stored.
"""
