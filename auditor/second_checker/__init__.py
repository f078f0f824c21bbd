"""Judge a ledger a second time, entry by entry, to confirm or object to the first verdict.

`agreement` compares the two verdicts; begin there. `opinion` derives the second one. Nothing here
is shared with `auditor.first_checker` but the model.
"""
