"""Parse JSON that an earlier run wrote, or somebody in its place."""

from __future__ import annotations

import json
from typing import Any

from auditor.errors import OutputError


def parse_json(text: str, name: str) -> Any:
    """Return the value in a JSON text.

    Raises OutputError, which calls the text `name`, if it is not JSON, is nested deeper than
    Python's stack, or has a number of more digits than Python converts.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise OutputError(f"{name} is nested too deeply: the auditor did not write it") from None
    except ValueError as error:
        raise OutputError(f"{name} is not JSON ({error}): it is damaged") from None
