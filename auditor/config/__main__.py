"""Print docs/configuration.md: `python -m auditor.config > docs/configuration.md`."""

import sys

from auditor.config.reference import reference_markdown

sys.stdout.write(reference_markdown())
