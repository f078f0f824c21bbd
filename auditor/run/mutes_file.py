"""Find, read and write the file of mutes: by default mutes.jsonl in --output."""

from __future__ import annotations

from pathlib import Path

from auditor.after.mutes import MUTES_FILE, BadMutes, Mute, Mutes, parse_mutes
from auditor.clock import utc_now
from auditor.context import Context
from auditor.errors import ConfigError, OutputError
from auditor.evidence.local_files import is_uri
from auditor.evidence.output_directory import Output
from auditor.evidence.run_directory import Place, place


def mutes_place(context: Context, output: Output) -> tuple[Place, str]:
    """Return the directory of the file and its name. Raises OutputError for a path that cannot be
    used.
    """
    given = context.settings.mutes
    if given is None:
        return output.root, MUTES_FILE
    folder, name = (
        given.rsplit("/", 1) if is_uri(given) else (str(Path(given).parent), Path(given).name)
    )
    return place(folder), name


def read_mutes(context: Context, output: Output) -> Mutes:
    """Return the mutes for a run that ends now.

    A file that cannot be read mutes nothing. This is logged and does not end the run.
    """
    today = utc_now().date()
    try:
        directory, name = mutes_place(context, output)
        text = directory.read_text(name)
        if text is None and context.settings.mutes is not None:
            raise BadMutes("there is no such file")
        return Mutes(parse_mutes(text or ""), today)
    except (BadMutes, OutputError, UnicodeDecodeError) as error:
        problem = f"{context.settings.mutes or MUTES_FILE} mutes nothing: {error}"
        context.logger.warning("mutes_not_read", problem=problem)
        return Mutes((), today, problem)


def edit_mutes(directory: Place, name: str) -> list[Mute]:
    """Return the mutes of a file that is about to be changed. Raises ConfigError if it is bad."""
    try:
        return parse_mutes(directory.read_text(name) or "")
    except (BadMutes, UnicodeDecodeError) as error:
        raise ConfigError(f"{directory.address}/{name} is not changed: {error}") from None
