"""Puts `tests/` on the path, so that shared support is importable as `support.xyz` from every test."""

import sys
from pathlib import Path

TESTS = str(Path(__file__).parent)
if TESTS not in sys.path:
    sys.path.insert(0, TESTS)
