"""The BookKeeper cluster auditor: is every acknowledged entry where the metadata says it is?"""

__version__ = "0.1.0"
