"""Keep what was read and judged: tables, rows, the run's directory, its journal, its lock.

`schemas` says what each table holds, `rows` and `gathered` turn values into rows and back,
`run_directory` and `output_directory` know where they are stored.
"""
