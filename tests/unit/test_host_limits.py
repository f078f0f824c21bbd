"""What this host gives is compared with what an audit needs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from auditor import host_limits as limits
from auditor.errors import LocalFault


def under(limit: str, expression: str) -> str:
    """Return what an expression gives in a process under a limit of the shell."""
    code = f"from auditor import host_limits as limits; print({expression})"
    done = subprocess.run(
        ["/bin/bash", "-c", f'ulimit {limit} && exec "$0" -c "$1"', sys.executable, code],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return (done.stdout + done.stderr).strip()


def test_the_soft_limit_is_raised_as_far_as_it_is_needed() -> None:
    """The hard limit stays, and more than the need is not taken."""
    assert "500" == under("-Sn 40", "limits.sockets_affordable(500)")


def test_a_hard_limit_leaves_fewer_sockets() -> None:
    """Those that the rest of the command needs are not given away."""
    few = int(under("-n 60", "limits.sockets_affordable(500)"))
    assert 10 < few <= 60 - limits.RESERVED_DESCRIPTORS


def test_without_one_socket_nothing_is_asked() -> None:
    """The sentence says what there is, what is needed, and what to do."""
    said = under("-n 20", "limits.sockets_affordable(500)")
    assert "LocalFault: this process may open 20 files, and an audit needs at least" in said
    assert "ulimit -Hn" in said


@pytest.mark.parametrize(("limit", "name"), [("-n 20", "descriptors"), ("-v 1000000", "memory")])
def test_a_limit_below_the_need_is_named(limit: str, name: str) -> None:
    """The others are enough."""
    short = "[one.name for one in limits.host_limits(None) if not one.is_enough]"
    assert f"['{name}']" == under(limit, short)


def test_a_full_output_is_refused_before_anybody_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The directory need not exist yet."""
    limits.require_host_limits(tmp_path / "not" / "yet")
    monkeypatch.setattr(limits, "OUTPUT_FREE_MIN", 2**60)
    with pytest.raises(LocalFault, match=r"MiB are free for .*/yet, and a run needs at least"):
        limits.require_host_limits(tmp_path / "not" / "yet")


def test_what_is_enough_is_said_too() -> None:
    """For `auditor doctor`, which prints each."""
    assert ["descriptors", "memory"] == [one.name for one in limits.host_limits(None, bookies=3)]
    assert all(one.is_enough and one.sentence for one in limits.host_limits(None, bookies=3))
    fewer = under("-n 80", "limits.host_limits(None, bookies=500)[0]")
    assert "is_enough=True" in fewer
    assert "too few for 500 bookies at once" in fewer


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        ("-n 1023", "this process may open 1,023 files, and Spark needs 1,024"),
        ("-v 4000000", "is limited to 3,906 MiB, and Spark's JVM reserves"),
        ("-Sn 100", "None"),
    ],
)
def test_limits_under_which_no_jvm_starts_are_named(limit: str, said: str) -> None:
    """The JVM itself would say nothing that helps, or pass for an old one. A soft limit is
    raised.
    """
    assert said in under(limit, "limits.require_room_for_spark()")


@pytest.mark.parametrize("chosen", [None, "system"])
@pytest.mark.parametrize("limit", ["-c 0", "-v 4000000"])
def test_arrow_allocates_by_jemalloc_unless_an_operator_chose_or_limits_the_address_space(
    monkeypatch: pytest.MonkeyPatch, chosen: str | None, limit: str
) -> None:
    """Builds of Arrow without it use their default. Where the address space is limited, all do."""
    monkeypatch.delenv(limits.POOL_VARIABLE, raising=False)
    if chosen is not None:
        monkeypatch.setenv(limits.POOL_VARIABLE, chosen)
    pool = "__import__('pyarrow').default_memory_pool().backend_name"
    has_jemalloc = "jemalloc" in pa.supported_memory_backends()
    default = "jemalloc" if has_jemalloc and limit == "-c 0" else "mimalloc"
    assert (chosen or default) == under(limit, f"limits.take_jemalloc() or {pool}")
