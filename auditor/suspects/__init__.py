"""The looks at suspects: which ledgers are left, and who does their stages, Spark or this process."""
