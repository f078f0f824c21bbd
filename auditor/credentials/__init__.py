"""Make TLS contexts, read secrets, get Kerberos tickets, and say in one sentence why that failed.

Nothing here opens a socket or keeps a secret.
"""
