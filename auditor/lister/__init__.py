"""Serve lists of entries beside a bookie that cannot list (`auditor lister`).

`server` answers in the bookie protocol. `directory_reader` controls the processes
(`reader_process`) that read the bookie's indexes. `serving` decides whether to answer at all.
"""
