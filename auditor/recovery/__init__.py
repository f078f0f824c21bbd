"""Rehearse a restored ZooKeeper against the living cluster, and salvage what no metadata names."""
