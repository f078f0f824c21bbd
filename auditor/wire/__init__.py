"""Turn bytes into values and back, without a socket: what ZooKeeper and bookies store and send.

Frames and connections of the bookie protocol, znodes of BookKeeper and Pulsar, lists of entries,
digests. Protobuf classes do not leave this package.
"""
