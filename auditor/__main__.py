"""`python -m auditor`, and the `auditor` command."""

from __future__ import annotations

from auditor.cli import cli


def main() -> None:
    """Run the command line and exit with its code."""
    cli()


if __name__ == "__main__":
    main()
