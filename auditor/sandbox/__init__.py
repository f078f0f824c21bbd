"""An embedded cluster on loopback: a real ZooKeeper, bookies that speak the protocol, stories.

`cluster` has the cluster; `seeding` fills it for `auditor demo`.
"""
