"""Reading the file and the environment, and docs/configuration.md, which is made from the
settings.
"""

from pathlib import Path

import pytest
from support.command_line import command_here

from auditor.config import parse, read_layers
from auditor.config.__main__ import reference_markdown
from auditor.config.sources import CONFIG_FILE_BYTES_MAX, read_file
from auditor.errors import ConfigError

PAGE = Path(__file__).parents[3] / "docs" / "configuration.md"


def test_the_file_is_the_one_named_by_flag_else_by_variable(tmp_path):
    """No file is read unless it is named; the flag beats the variable."""
    for name, tasks in (("one.toml", 1), ("two.toml", 2)):
        (tmp_path / name).write_text(f"tasks = {tasks}\n")
    one, two = str(tmp_path / "one.toml"), str(tmp_path / "two.toml")
    assert parse(read_layers({}, {})).tasks == 0
    assert parse(read_layers({"config": None}, {"AUDITOR_CONFIG": two})).tasks == 2
    assert parse(read_layers({"config": one}, {"AUDITOR_CONFIG": two})).tasks == 1


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"tasks = \n", "is not TOML"),
        (b"output = '\xff'\n", "is not UTF-8 text"),
        (b"#" * (CONFIG_FILE_BYTES_MAX + 1), "is larger than"),
        (b"config = 'b.toml'\n", "cannot name another file"),
        (b"[run]\ntasks = 1\n", "run in"),
    ],
)
def test_a_file_that_is_not_a_configuration_is_refused_by_name(tmp_path, content, reason):
    """The error says what is wrong, and in which file."""
    path = tmp_path / "a.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=reason) as caught:
        parse(read_layers({"config": str(path)}, {}))
    assert str(path) in str(caught.value)


def test_a_file_that_is_not_there_is_an_error(tmp_path):
    """A named file is never passed over."""
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        read_layers({"config": str(tmp_path / "none.toml")}, {})


def test_the_configuration_page_is_up_to_date():
    """docs/configuration.md is what `python -m auditor.config` prints."""
    assert reference_markdown() == PAGE.read_text(encoding="utf-8"), (
        "run: python -m auditor.config > docs/configuration.md"
    )


def test_the_example_on_the_page_is_a_configuration(tmp_path):
    """What the page shows can be used as it stands."""
    example = reference_markdown().split("```toml\n")[1].split("```")[0]
    path = tmp_path / "auditor.toml"
    path.write_text(example)
    settings = parse(read_layers({"config": str(path)}, {}), command="run")
    assert (settings.bookie_requests_per_second, settings.underreplication_grace_ms) == (
        500,
        24 * 3_600_000,
    )


@pytest.mark.parametrize("text", ["a = " + "[" * 5_000, "a = " + "9" * 5_000, "a = 2026-13-01"])
def test_a_file_that_toml_cannot_read_is_refused(tmp_path: Path, text: str):
    """It is nested too deeply, or has a number that is too long or a date that does not exist."""
    path = tmp_path / "auditor.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"auditor\.toml"):
        read_file(path)


def test_a_sentence_on_no_change():
    """Stdout stays empty, for a program that reads it."""
    done = command_here("config", "--changed")
    assert (0, "") == (done.returncode, done.stdout)
    assert "no setting differs from its default" in done.stderr
