"""Turn bytes into values and back, without a socket: what ZooKeeper and bookies store and send.

Frames and connections of the bookie protocol, znodes of BookKeeper, lists of entries, digests.
Protobuf classes leave this package for `auditor.pulsar.metadata` only.
"""
