"""One target in one process, by Atheris or by Hypothesis. Started by fuzz.py.

python -m fuzz_children ENGINE TARGET SECONDS SEED FOLDER
"""

from __future__ import annotations

import faulthandler
import importlib
import resource
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from fuzz import FAILED, INPUT_TIMEOUT_S, MODULES

if TYPE_CHECKING:
    from targets import Target

EXAMPLES_A_ROUND = 500
"""Examples of Hypothesis between two checks of the clock."""


def all_targets() -> dict[str, Target]:
    """Return the targets by name. Imports the product."""
    return {
        target.name: target
        for module in MODULES
        for target in importlib.import_module(module).TARGETS
    }


def run_atheris(name: str, seconds: int, seed: int, folder: Path) -> None:
    """Fuzz with coverage guidance. libFuzzer ends the process, with an exit code of its own at a
    failure.
    """
    import atheris

    with atheris.instrument_imports(include=["auditor"]):
        target = all_targets()[name]
    from targets import try_input

    corpus = folder / "corpus"
    corpus.mkdir(exist_ok=True)
    for number, data in enumerate([*target.seeds, *target.found()]):
        (corpus / f"seed-{number}").write_bytes(data)
    options = {
        "max_total_time": seconds, "seed": seed, "max_len": target.bytes_max,
        "timeout": INPUT_TIMEOUT_S,
        "rss_limit_mb": target.memory_mib_max, "artifact_prefix": f"{folder}/",
        "print_final_stats": 1, "verbosity": 0,
    }  # fmt: skip
    atheris.Setup(
        [sys.argv[0], str(corpus), *(f"-{key}={value}" for key, value in options.items())],
        lambda data: try_input(target, data),
    )
    atheris.Fuzz()


def run_hypothesis(name: str, seconds: int, seed: int, folder: Path) -> int:
    """Fuzz without Atheris, in rounds of examples for which Hypothesis maximises the reached lines.
    Return the exit code.
    """
    from hypothesis import HealthCheck, Phase, given, settings
    from hypothesis import seed as seeded
    from hypothesis import target as aim
    from inputs import count_lines, inputs
    from targets import try_input

    target = all_targets()[name]
    bound = target.memory_mib_max * 2**20
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + bound, used + bound))
    ends_at, tried = time.monotonic() + seconds, 0
    while time.monotonic() < ends_at:

        @seeded(seed + tried)
        @settings(
            max_examples=EXAMPLES_A_ROUND, deadline=None, database=None,
            suppress_health_check=list(HealthCheck),
            phases=(Phase.generate, Phase.target, Phase.shrink),
        )  # fmt: skip
        @given(inputs(target))
        def hold(data: bytes) -> None:
            (folder / "last-input.bin").write_bytes(data)
            faulthandler.dump_traceback_later(INPUT_TIMEOUT_S, exit=True)
            aim(float(count_lines(lambda: try_input(target, data))))
            faulthandler.cancel_dump_traceback_later()

        try:
            hold()
        except BaseException:
            print(f"seed {seed + tried}; the input is {folder / 'last-input.bin'}", flush=True)
            raise
        tried += EXAMPLES_A_ROUND
    print(f"{tried} inputs, seed {seed}")
    return 0


def main(words: list[str]) -> int:
    """Return the exit code."""
    engine, name, seconds, seed, folder = words
    if engine == "atheris":
        run_atheris(name, int(seconds), int(seed), Path(folder))
        return FAILED  # libFuzzer does not return
    return run_hypothesis(name, int(seconds), int(seed), Path(folder))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
