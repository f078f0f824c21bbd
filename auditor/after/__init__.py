"""What only reads a finished run: causes, changes, mutes, the margin, the page, the dashboard.

Nothing here changes a verdict. These modules know a run by its directory and its types, not by how
it was made. `finished_run` opens it; the page is in `page`.
"""
