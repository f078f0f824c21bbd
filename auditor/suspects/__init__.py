"""Looks at suspects: which ledgers are left, and who does their stages."""
