"""Text for standard error that may quote a file or a peer."""

from support.hostile_names import HOSTILE, unprintable

from auditor.console import without_controls


def test_what_a_terminal_acts_on_is_escaped():
    """Letters of every script and line breaks stay."""
    assert [] == unprintable(without_controls(HOSTILE))
    assert "größe 日本\n" == without_controls("größe 日本\n")
    assert r"\x1b[2J" == without_controls("\x1b[2J")
