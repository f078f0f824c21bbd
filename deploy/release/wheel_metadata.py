"""What the wheel says of itself beside pyproject.toml: project URLs, and absolute links.

hatchling calls `WheelMetadata` for each build. A release is built where `GITHUB_SERVER_URL` and
`GITHUB_REPOSITORY` are set (.github/workflows/release.yml), or with `REPOSITORY_URL`. Any other
build has no address: its README names the files to which this one links.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

PROPOSAL = "https://bookkeeper.apache.org/bps/BP-34-cluster-metadata-checker"
_LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?P<target>(?!https?://|#)[^)\s]+)\)")
_VERSION = re.compile(r'^__version__ = "([^"]+)"$', re.MULTILINE)


class WheelMetadata(MetadataHookInterface):
    """The fields that pyproject.toml lists as dynamic."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the README and the URLs to the metadata of the project."""
        root = Path(self.root)
        version = _VERSION.search((root / "auditor" / "__init__.py").read_text(encoding="utf-8"))
        assert version is not None, "auditor/__init__.py has the version"
        address = repository_of(os.environ)
        readme = (root / "README.md").read_text(encoding="utf-8")
        text = with_absolute_links(readme, address, f"v{version[1]}")
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
        metadata["urls"] = project_urls(address)


def repository_of(environment: Mapping[str, str]) -> str | None:
    """Return the address of the repository, without a slash at its end; None if it is not known."""
    server, name = environment.get("GITHUB_SERVER_URL"), environment.get("GITHUB_REPOSITORY")
    address = environment.get("REPOSITORY_URL") or (f"{server}/{name}" if server and name else "")
    return address.rstrip("/") or None


def project_urls(address: str | None) -> dict[str, str]:
    """Return the links that PyPI shows beside the README."""
    ours = {
        "Source": "",
        "Documentation": "/blob/main/docs/getting-started.md",
        "Changelog": "/blob/main/CHANGELOG.md",
        "Issues": "/issues",
    }
    known = {} if address is None else {name: address + path for name, path in ours.items()}
    return {**known, "BP-34": PROPOSAL}


def with_absolute_links(readme: str, address: str | None, tag: str) -> str:
    """Return the README with links to this tag of the repository in place of links to its files.

    Without an address a link becomes its text and the name of the file, and a picture goes.
    """

    def mend(link: re.Match[str]) -> str:
        is_image, text, target = bool(link["image"]), link["text"], link["target"]
        if address is not None:
            kind = "raw" if is_image else "blob"
            return f"{link['image']}[{text}]({address}/{kind}/{tag}/{target})"
        if is_image:
            return ""
        return text if text == target.partition("#")[0] else f"{text} ({target})"

    return _LINK.sub(mend, readme)
