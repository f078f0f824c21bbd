"""Read a cluster's metadata from ZooKeeper, and never write. The only home of kazoo.

`metadata_store` is the door for other packages to BookKeeper's metadata. Pulsar's is read in `pulsar`.
"""
