"""Read a cluster's metadata from ZooKeeper, and never write. The only home of kazoo.

Other packages begin with `metadata_store`. Pulsar's znodes are read in `auditor.pulsar`.
"""
