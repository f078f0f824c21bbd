"""Read a text file of a run, up to a maximum size."""

from __future__ import annotations

from pyarrow import fs

from auditor.errors import OutputError
from auditor.evidence.table_scan import file_errors

TEXT_BYTES_MAX = 4 * 2**30
"""Largest JSON file of a run that is read, in bytes: a findings.jsonl of a million findings. A
sparse file takes no disk, and could take all memory.
"""


def read_text_file(files: fs.FileSystem, path: str, name: str) -> str | None:
    """Return the text of a file, or None where there is no file.

    Raises OutputError, which calls the file `name`, if it cannot be read, is not UTF-8, or has more
    than TEXT_BYTES_MAX: such a file is not opened.
    """
    with file_errors(f"read {name}"):
        info = files.get_file_info(path)
        if info.type is not fs.FileType.File:
            return None
        if (info.size or 0) > TEXT_BYTES_MAX:
            raise OutputError(
                f"{name} has {info.size} bytes, more than the {TEXT_BYTES_MAX} that are read of one"
                " file"
            )
        with files.open_input_stream(path) as stream:
            content = bytes(stream.read())
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise OutputError(f"{name} is not UTF-8 text (byte {error.start}): it is damaged") from None
