"""A page as a browser parses it: its elements and its text."""

from __future__ import annotations

from html.parser import HTMLParser


class Elements(HTMLParser):
    """The start tags with the names of their attributes, and the text of each element, in order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, tuple[str, ...]]] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.texts: list[tuple[str, str]] = []
        self._open: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, tuple(name for name, _ in attrs)))
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.texts.append((self._open[-1] if self._open else "", data))

    def words(self) -> str:
        """Return all text that a person reads, with single blanks."""
        shown = (text for tag, text in self.texts if tag not in ("script", "style"))
        return " ".join(" ".join(shown).split())
