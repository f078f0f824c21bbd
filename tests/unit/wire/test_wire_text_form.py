"""protobuf's text form: whatever its parser raises, the error has a place in the bytes."""

from __future__ import annotations

import pytest
from google.protobuf import text_format

from auditor.errors import MalformedMetadata
from auditor.wire import protobuf_forms
from auditor.wire.generated.data_formats_pb2 import CookieFormat

DATA = b"5\nbookieHost: 'h'"
START = 2


@pytest.mark.parametrize(
    ("raised", "says"),
    [
        (text_format.ParseError("no place"), "the text form cannot be parsed at line 1, column 1"),
        (RecursionError("too deep"), "the text form cannot be parsed"),
    ],
)
def test_an_error_without_a_place_points_at_the_first_byte_of_the_text(
    monkeypatch: pytest.MonkeyPatch, raised: Exception, says: str
) -> None:
    """No text is known over which protobuf's parser raises either; a newer one may."""

    def merge(text: str, message: CookieFormat) -> None:
        raise raised

    monkeypatch.setattr(text_format, "Merge", merge)
    with pytest.raises(MalformedMetadata) as error:
        protobuf_forms.merge_text(DATA, START, CookieFormat())
    assert (says, START) == (error.value.reason, error.value.offset)
