"""Say each finding in sentences that a person can check, whose ledger it is, and what to run next.

`finding_lines` renders every kind; each family has a module. `next_commands` has the commands.
"""
