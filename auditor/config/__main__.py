"""Print docs/configuration.md: `python -m auditor.config > docs/configuration.md`."""

from __future__ import annotations

import sys
from itertools import groupby

from auditor.config.run_settings import CONFIG_FILE
from auditor.config.setting import Setting
from auditor.config.settings import SETTINGS

_OPENING = """\
# Configuration

<!-- Made by `python -m auditor.config > docs/configuration.md` from the table in auditor/config/:
change it there. -->

Every setting has a flag, an environment variable and a key in a TOML file (`--config FILE` or
`AUDITOR_CONFIG`; no file is read unless it is named). A flag beats the environment, the environment
beats the file, the file beats the default. An unknown key, an `AUDITOR_` variable that resembles a
setting, a value out of range, or limits that make no sense together end the command with exit code
2 before anything is contacted. Other `AUDITOR_` variables, such as those that Kubernetes makes for
a Service named `auditor`, are ignored. `auditor config` shows the effective settings and where each
came from, and names the variables that it ignores.

- Durations: `500ms`, `30s`, `5m`, `72h`, `7d`, or `0`. A bare number has no unit and is refused.
- Sizes: `64MiB` (also KiB, GiB, kB, MB, GB), or a number of bytes.
- Rates: a number a second; `0` is no limit.
- Shares: whole percent, `50%` or `50`.
- Lists: `a,b,c`; in the file also `["a", "b", "c"]`.
- Switches: `true` or `false`; as a flag `--dry-run` or `--no-dry-run`.
- Secrets of logins and keys come from a file, a command or the environment, never from a flag or
  the TOML file ([secured-clusters.md](secured-clusters.md)). A Pushgateway URL with a password may
  be in the TOML file.

```toml
# auditor.toml
metadata_service_uri = "zk+hierarchical://zk1:2181,zk2:2181,zk3:2181/ledgers"
output = "/var/lib/bookkeeper-auditor"
bookie_requests_per_second = 500
underreplication_grace = "24h"
metrics_textfile = "/var/lib/node_exporter/textfile/bookkeeper_auditor.prom"
```
"""


def reference_markdown() -> str:
    """Return the whole page, which ends in one newline. Pure."""
    parts = [_OPENING]
    for section, settings in groupby(SETTINGS, key=lambda setting: setting.section):
        parts.append(f"\n## {section}\n")
        parts.extend(_entry(setting) for setting in settings)
    parts.append(f"\n## {CONFIG_FILE.section}\n")
    parts.append(
        f"\n`{CONFIG_FILE.flag} {CONFIG_FILE.metavar}`, `{CONFIG_FILE.variable}`:"
        f" {CONFIG_FILE.help} {CONFIG_FILE.why}\n"
    )
    return "".join(parts)


def _entry(setting: Setting) -> str:
    flag = f"{setting.flag} {setting.metavar}".strip()
    facts = [f"`{flag}`", f"`{setting.variable}`", f"default {_default(setting)}"]
    if setting.range_text:
        facts.append(f"range {setting.range_text}")
    commands = ", ".join(f"`{command}`" for command in sorted(setting.commands - {"config"}))
    names = f"### `{setting.key}`\n\n{' · '.join(facts)} · for {commands}"
    return f"\n{names}\n\n{setting.help}\n\n*Why this default:* {setting.why}\n"


def _default(setting: Setting) -> str:
    if setting.default is None:
        return "not set"
    others = "".join(
        f" (`{command}`: `{text}`)" for command, text in sorted(setting.elsewhere.items())
    )
    return f"`{setting.default}`{others}"


if __name__ == "__main__":
    sys.stdout.write(reference_markdown())
