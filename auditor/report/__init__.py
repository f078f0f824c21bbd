"""Texts for people: the report of a run, its first screen, and the reports of other commands.

`text` is the whole report, `first_screen` its first 25 lines. Both use the same sentences.
"""
