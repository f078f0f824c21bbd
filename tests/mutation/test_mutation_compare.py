"""What `make mutation` reports: unexplained survivors, and explanations that are no longer
needed.
"""

import inspect
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import patience
from patience import EXPLAINED_CPU_S, first_of
from planting import Mutant, planted
from records import (
    Record,
    digest_of,
    digests,
    files_used,
    is_fresh,
    killers_of,
    read_record,
    write_record,
)
from try_mutants import (
    ON_TRIAL,
    SURVIVORS,
    TESTS,
    Explained,
    by_package,
    compared,
    explained,
    selection_of,
    terms_of,
)

from auditor.after import pseudonyms

HERE = ("auditor/first_checker/a.py", "f", "return n + 1", "return n - 1")
ENTRY = """[[survivor]]
file = "auditor/first_checker/a.py"
function = "f"
before = "return n + 1"
after = "return n - 1"
why = "equivalent: nobody calls it"
"""
FILES = ("auditor/first_checker/a.py",)


def test_a_survivor_that_nobody_explained_is_reported_with_its_change() -> None:
    """The report has file, function, the line before and after."""
    (line,) = compared([(HERE, "survived")], [], FILES)
    assert (
        "auditor/first_checker/a.py f\n  - return n + 1\n  + return n - 1\n    survives (1), and"
        " none explained" == line
    )


@pytest.mark.parametrize("how", ["survived", "unreached", "unplanted"])
def test_what_was_not_tried_survives_too(how: str) -> None:
    """A mutant that no test reaches, or that could not be planted, counts as one that no test
    noticed.
    """
    assert 1 == len(compared([(HERE, how)], [], FILES))


@pytest.mark.parametrize("how", ["killed", "endless"])
def test_what_is_killed_needs_no_word(how: str) -> None:
    """A mutant is killed if a test failed, or did not end."""
    assert [] == compared([(HERE, how)], [], FILES)


def test_an_explained_survivor_is_let_be() -> None:
    """It is found by the text of its lines, wherever they are."""
    assert [] == compared([(HERE, "survived")], explained(ENTRY), FILES)


@pytest.mark.parametrize("tried", [[], [(HERE, "killed")]])
def test_an_explanation_that_nothing_needs_is_reported(
    tried: list[tuple[tuple[str, str, str, str], str]],
) -> None:
    """Its mutant no longer exists, or is killed by now: the list cannot become stale."""
    (line,) = compared(tried, explained(ENTRY), FILES)
    assert line.endswith("is explained (1), and none survives: take the entry out")


def test_mutants_that_look_alike_are_counted() -> None:
    """One function has two such mutants, and one of them is explained."""
    twice = [(HERE, "survived"), (HERE, "survived")]
    assert 1 == len(compared(twice, explained(ENTRY), FILES))
    assert [] == compared(twice, explained(ENTRY + "times = 2\n"), FILES)


def test_explanations_of_what_was_not_tried_are_let_be() -> None:
    """A trial of one module says nothing about another."""
    assert [] == compared([], explained(ENTRY), ("auditor/first_checker/b.py",))


@pytest.mark.parametrize("text", [ENTRY.replace("equivalent: nobody calls it", " "), ENTRY + ENTRY])
def test_an_entry_has_one_reason(text: str) -> None:
    """No reason and two reasons are both errors."""
    with pytest.raises(ValueError, match=r"no reason|explained twice"):
        explained(text)


def test_the_explained_survivors_are_of_code_that_is_there() -> None:
    """Each names a file, and a line that the file has."""
    project = Path(__file__).parents[2]
    for one in explained(SURVIVORS.read_text()):
        file, _, before, _ = one.identity
        lines = [line.strip() for line in (project / file).read_text().splitlines()]
        assert all(line in lines for line in before.splitlines()), one


def test_an_explanation_is_a_named_tuple_of_one_mutant() -> None:
    """By default it is one mutant."""
    assert [Explained(HERE, "equivalent: nobody calls it")] == explained(ENTRY)


def test_each_place_on_trial_is_there_and_has_tests() -> None:
    """Places are modules and packages."""
    project = Path(__file__).parents[2]
    for place in ON_TRIAL:
        assert (project / place).exists(), place
        tests = selection_of(place if place.endswith(".py") else f"{place}/any.py")
        assert tests and all(
            (project / test).exists() or [*project.glob(f"{test}*.py")] for test in tests
        ), place
    assert [] == [place for place in TESTS if not (project / place).exists()]


def test_every_explanation_is_of_a_module_on_trial() -> None:
    """`make mutation` would never check an explanation for another module."""
    files = {one.identity[0] for one in explained(SURVIVORS.read_text())}
    assert [] == sorted(file for file in files if not file.startswith(ON_TRIAL))


def test_a_module_has_the_tests_of_its_package_unless_it_has_its_own() -> None:
    """The longest known name decides."""
    assert ("tests/unit/wire",) == selection_of("auditor/wire/frames.py")
    assert (
        selection_of("auditor/judging/settle.py")[0]
        == "tests/unit/judging/test_judging_outcomes.py"
    )


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a tree with a module and its test."""
    for name in ("module.py", "test.py"):
        (tmp_path / name).write_text(name)
    return tmp_path


def tried(tree: Path, terms: str = "terms") -> Record:
    """Return the record of a trial that rests on the two files."""
    rests_on = digests(tree, [tree / "test.py", tree / "module.py"])
    return Record(terms, rests_on, [[*HERE, "killed", "test.py::test"]])


def test_a_module_is_not_tried_again_while_all_stands_on_which_its_record_rests(
    tree: Path,
) -> None:
    """Other changes in the tree do not matter."""
    write_record(tree, "auditor/a.py", tried(tree))
    (tree / "other.py").write_text("new")
    assert is_fresh(read_record(tree, "auditor/a.py"), "terms", tree)


@pytest.mark.parametrize("name", ["module.py", "test.py"])
@pytest.mark.parametrize("text", ["other = 1", None])
def test_a_module_is_tried_again_when_a_file_changed_or_is_no_more(
    tree: Path, name: str, text: str | None
) -> None:
    """Such a file is the module, what it calls, its tests, or what runs them."""
    record, path = tried(tree), tree / name
    path.unlink() if text is None else path.write_text(text)
    digest_of.cache_clear()
    assert not is_fresh(record, "terms", tree)


def test_explaining_a_survivor_tries_no_module_again(tree: Path) -> None:
    """How a mutant ended does not depend on why it may survive."""
    for name in ("survivors.toml", "cases.toml"):
        (tree / name).write_text("")
    assert {tree / "cases.toml"} <= files_used(tree)
    assert tree / "survivors.toml" not in files_used(tree)


def test_what_python_skips_tries_no_module_again(tmp_path: Path) -> None:
    """Comments, docstrings and the breaks of lines."""
    said = []
    for number, text in enumerate(
        (
            'def f(a, b):\n    """One."""\n    return a + b\n\n\nN = 1\n"""Of N."""\n',
            'def f(\n    a, b\n):\n    """Two."""\n    return a + b  # both\n\n\nN = 1\n',
            "def f(a, b):\n    return a - b\n\n\nN = 1\n",
        )
    ):
        file = tmp_path / f"{number}.py"
        file.write_text(text)
        said.append(digest_of(file))
    assert (True, False) == (said[0] == said[1], said[0] == said[2])


@pytest.mark.parametrize("record", [Record(), Record("terms", {}, [[*HERE, "killed", "by"]])])
def test_a_module_that_was_not_tried_whole_is_tried(tree: Path, record: Record) -> None:
    """It was never tried, or only in part, with AGAIN=1."""
    assert not is_fresh(record, "terms", tree)
    assert not is_fresh(tried(tree), "other terms", tree)


def test_the_terms_of_a_trial_name_each_test_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new file may kill a survivor, and so may one that is no longer left out."""
    file = "auditor/pace.py"
    before = terms_of(file)
    monkeypatch.setitem(TESTS, file, (*TESTS[file], "tests/unit/test_stop.py"))
    with_another = terms_of(file)
    monkeypatch.setattr("try_mutants.TOO_SLOW", ())
    assert 3 == len({before, with_another, terms_of(file)})


def test_what_killed_a_mutant_is_tried_first_unless_one_that_looks_alike_survived() -> None:
    """The two have one identity."""
    killed, survived = [*HERE, "killed", "t"], [*HERE, "survived", ""]
    name = json.dumps(HERE)
    assert {name: "t"} == killers_of(Record("", {}, [killed, killed]))
    assert {name: ""} == killers_of(Record("", {}, [killed, survived]))
    assert {name: ""} == killers_of(Record("", {}, [survived, killed]))


def test_an_explained_mutant_is_tried_with_the_first_tests_alone() -> None:
    """One at least, however dear it is, and no more than are paid for."""
    cost_s = EXPLAINED_CPU_S / 2
    assert ["a", "b"] == first_of(["a", "b", "c"], [cost_s, cost_s, cost_s])
    assert ["a"] == first_of(["a", "b"], [10 * cost_s, cost_s])


def test_modules_are_tried_package_by_package() -> None:
    """Packages are in the order in which they are named."""
    assert {"a": ["a/x.py", "a/y.py"], "b": ["b/x.py"]} == by_package(
        ["a/x.py", "b/x.py", "a/y.py"]
    )


@pytest.mark.skipif(
    not Path("/proc/self/task").exists(), reason="only Linux shows what a process waits for"
)
@pytest.mark.parametrize(("waits", "runs_out"), [(True, True), (False, False)])
def test_a_child_that_waits_is_ended_and_one_that_computes_is_not(
    monkeypatch: pytest.MonkeyPatch, waits: bool, runs_out: bool
) -> None:
    """It does not matter how long either takes: a busy machine ends no child."""
    monkeypatch.setattr(patience, "WAIT_S", 0.5)
    program = "import time; time.sleep(600)" if waits else "while True: pass"
    with subprocess.Popen([sys.executable, "-S", "-c", program]) as child:
        watched = patience.Patience(child.pid)
        ends = time.monotonic() + (30.0 if waits else 3.0)
        found = False
        while not found and time.monotonic() < ends:
            found = watched.has_run_out()
            time.sleep(0.05)
        child.kill()
    assert runs_out is found


def test_a_function_that_calls_itself_can_be_changed() -> None:
    """Its mutant calls itself by the same name."""
    source = inspect.getsource(pseudonyms.bookie_ids_in)
    file = "auditor/after/pseudonyms.py"
    assert planted(Mutant(file, "bookie_ids_in", "before", "after", source)) is not None
