"""What the auditor promises of its speed, measured: `python -m benchmarks` from the project's root
(see README.md here).

The servers that benchmarks need are those of the tests, so their support package is made
importable.
"""

from __future__ import annotations

import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]

if str(PROJECT / "tests") not in sys.path:
    sys.path.insert(0, str(PROJECT / "tests"))
