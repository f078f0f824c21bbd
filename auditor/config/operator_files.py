"""Read files that an operator names, up to a maximum size, create directories, and parse Java
properties files.

Properties files are, for example, bookkeeper.conf and broker.conf.
"""

from __future__ import annotations

from pathlib import Path

from auditor.errors import ConfigError


def read_small_file(path: Path, bytes_max: int, what: str) -> bytes:
    """Return the content of a file of at most `bytes_max` bytes.

    Raises ConfigError, which calls the file `what`, if it is larger or cannot be read.
    """
    try:
        with path.open("rb") as file:
            content = file.read(bytes_max + 1)
    except OSError as error:
        raise ConfigError(f"{what} {path} cannot be read: {error.strerror or error}") from None
    if len(content) > bytes_max:
        raise ConfigError(f"{what} {path} is larger than {bytes_max} bytes")
    return content


def create_empty_directory(path: Path, option: str, mode: int = 0o777, why: str = "") -> None:
    """Create a directory for results, with its parents. An empty one may be there before.

    Raises ConfigError, which names the option and says `why` the directory must be empty.
    """
    try:
        path.mkdir(parents=True, exist_ok=True, mode=mode)
        is_empty = not any(path.iterdir())
    except OSError as error:
        raise ConfigError(f"{option}: {path}: {error.strerror}") from None
    if not is_empty:
        raise ConfigError(f"{option}: {path} is not empty: name a new directory{why}")


def parse_properties(text: str) -> dict[str, str]:
    """Return the keys and values of a Java properties file. A later key replaces an earlier one.

    Understands comments, `=`, `:` or a space between key and value, and lines continued by a
    backslash. Escapes other than a doubled backslash are kept as they are.
    """
    found: dict[str, str] = {}
    for line in _logical_lines(text):
        cut = min((at for at in map(line.find, "=: \t") if at >= 0), default=len(line))
        key, rest = line[:cut], line[cut:].strip()
        value = rest[1:].strip() if rest[:1] in ("=", ":") else rest
        found[key] = value.replace("\\\\", "\\")
    return found


def _logical_lines(text: str) -> list[str]:
    lines: list[str] = []
    is_continued = False
    for raw in text.splitlines():
        line = raw.strip()
        if not is_continued and (not line or line[0] in "#!"):
            continue
        ends_open = (len(line) - len(line.rstrip("\\"))) % 2 == 1
        part = line[:-1] if ends_open else line
        if is_continued:
            lines[-1] += part
        else:
            lines.append(part)
        is_continued = ends_open
    return lines
