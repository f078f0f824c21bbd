"""An embedded cluster on loopback: a real ZooKeeper, bookies that speak the protocol, stories.

`cluster` is the whole; `seeding` fills it for `auditor demo`.
"""
