"""Texts for people: the report of a run, its first screen, and the reports of other commands.

`text` is the whole report, `first_screen` what fits on a terminal, `tally` the
numbers. All use the same sentences.
"""
