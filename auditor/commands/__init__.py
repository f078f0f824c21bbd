"""The commands of `auditor`, one module each, and what several of them need.

A command turns settings into one call and an exit code.
"""
