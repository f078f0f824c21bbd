"""Poison ledgers: one on which judging raises, does not end, takes all memory or ends its process is set aside, and named."""
