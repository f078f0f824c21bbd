"""`auditor config` shows each setting and its origin."""

from __future__ import annotations

import json

from auditor.config import Layers, Origin, ignored_variables, origins, parse, shown_values
from auditor.config.secured_settings import SECRETS
from auditor.context import EXIT_SOUND, Context


def show_config(context: Context, layers: Layers, *, is_changed: bool = False) -> int:
    """Print each setting, its value, and the flag, variable, file key or default it comes from.

    With `is_changed`, settings with the value of their default are left out.

    Of secrets in the environment or a JAAS file only the names are printed. A note on stderr names
    each AUDITOR_* variable that is ignored.
    """
    for variable in ignored_variables(layers.environment):
        context.note(f"{variable} in the environment resembles no setting, and is ignored")
    values, came_from = shown_values(context.settings), origins(layers)
    for secret in SECRETS:
        if secret.key in context.settings.secrets_in_environment:
            values[secret.key], came_from[secret.key] = (
                "***",
                Origin("environment", secret.variable),
            )
        elif secret.key in context.settings.secrets_in_jaas:
            values[secret.key] = "***"
    if is_changed:
        default = shown_values(parse())
        values = {key: value for key, value in values.items() if value != default.get(key)}
        if not values:
            context.note("no setting differs from its default")
    if context.settings.format == "json":
        rows = {
            key: {"value": value, "from": came_from[key].layer, "name": came_from[key].name}
            for key, value in values.items()
        }
        context.say(json.dumps(rows) + "\n")
        return EXIT_SOUND
    for key, value in values.items():
        origin = came_from[key]
        source = origin.layer if origin.layer == "default" else f"{origin.layer} {origin.name}"
        context.say(f"{key:<34} {value!s:<28} {source}\n")
    return EXIT_SOUND
