"""Whole audits of real servers with TLS, logins and ACLs, and the errors for a wrong credential."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from support.audits import Outcome, accounted, audit, audit_ledgers
from support.command_line import Done, command, command_here
from support.leaks import (
    NOTHING,
    CommandLines,
    FilesWhileTheyExist,
    environments,
    words_in,
    write_spark_defaults,
)
from support.secured_cluster import (
    CANARY,
    DIGEST_PASSWORD,
    KEY_PASSWORD,
    LOST,
    PASSWORD,
    SOUND,
    USER,
    ZOOKEEPER_PASSWORD,
    Secured,
    secured_cluster,
)

from auditor.evidence.run_directory import place
from auditor.evidence.schemas import ANSWERS

pytestmark = pytest.mark.real

QUICK = {"second_look_delay": "0s", "rpc_timeout": "4s"}
Settings = Mapping[str, str]


@pytest.fixture(scope="module")
def with_tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """Yield bookies that require TLS with a client certificate, and no login."""
    with secured_cluster(tmp_path_factory.mktemp("tls")) as secured:
        secured.bookies_want(tls=True)
        yield secured


@pytest.fixture(scope="module")
def with_logins(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """Yield bookies that offer TLS and require a login, and znodes that require one too."""
    with secured_cluster(tmp_path_factory.mktemp("logins")) as secured:
        secured.bookies_want(tls=True, sasl=True)
        secured.guard_znodes()
        yield secured


def flags(settings: Settings) -> list[str]:
    """Return settings as flags of a shell."""
    return [
        word for key, value in settings.items() for word in (f"--{key.replace('_', '-')}", value)
    ]


def doctor(secured: Secured, settings: Settings) -> Done:
    uri = secured.cluster.metadata_service_uri
    return command_here("doctor", "--metadata-service-uri", uri, *flags(settings))


def finds_the_loss(outcome: Outcome) -> None:
    """Assert that every ledger was judged and the lost copy was found."""
    accounted(outcome)
    assert outcome.standings(SOUND) == ["sound"]
    assert [finding["ledger_id"] for finding in outcome.findings] == [LOST]
    assert (outcome.exit_code, outcome.summary["complete"]) == (1, True)


@pytest.mark.long
def test_bookies_with_tls_are_audited(with_tls: Secured, tmp_path: Path) -> None:
    """The key of the client certificate is encrypted; it works in the lanes of a run and in those
    of `ledger`.
    """
    settings = with_tls.tls("bookie")
    finds_the_loss(audit(with_tls.cluster, tmp_path, **settings))
    assert audit_ledgers(with_tls.cluster, [SOUND, LOST], **settings).exit_code == 1


@pytest.mark.parametrize("with_tls_too", [False, True])
def test_bookies_with_logins_are_audited(
    with_logins: Secured, tmp_path: Path, with_tls_too: bool
) -> None:
    """The login works in clear and inside TLS; the znodes are read as the bookies' own user, in
    clear.
    """
    settings = with_logins.sasl("bookie") | with_logins.sasl("zookeeper")
    finds_the_loss(
        audit(
            with_logins.cluster,
            tmp_path,
            **settings,
            **(with_logins.tls("bookie") if with_tls_too else {}),
        )
    )


@pytest.mark.parametrize("way", ["tls and sasl", "digest"])
def test_a_secured_zookeeper_is_read(with_logins: Secured, tmp_path: Path, way: str) -> None:
    """It is read over TLS as the bookies' user, and in clear with a digest that may only read."""
    settings = with_logins.sasl("bookie")
    if way == "digest":
        finds_the_loss(audit(with_logins.cluster, tmp_path, **settings, **with_logins.digest()))
        return
    secured = with_logins.tls("zookeeper") | with_logins.sasl("zookeeper")
    finds_the_loss(audit(with_logins.uri_with_tls, tmp_path, **settings, **secured))


def wrong_for_tls(secured: Secured) -> dict[str, tuple[Settings, str]]:
    """Return settings that no bookie with TLS accepts, or that accept no bookie, and the word for
    the fault.
    """
    return {
        "no certificate": (secured.tls_without_certificate("bookie"), "wants a client certificate"),
        "of another CA": (
            secured.tls("bookie", secured.pki.issue("stranger", by="other")),
            "refused our certificate",
        ),
        "expired": (
            secured.tls("bookie", secured.pki.issue("expired", is_expired=True)),
            "our certificate has expired",
        ),
        "for later": (
            secured.tls("bookie", secured.pki.issue("early", is_early=True)),
            "our certificate is not valid yet",
        ),
        "another CA trusted": (
            secured.tls("bookie", ca="other"),
            "not from a CA in --bookie-tls-ca",
        ),
    }


@pytest.mark.long
@pytest.mark.parametrize(
    "fault", ["no certificate", "of another CA", "expired", "for later", "another CA trusted"]
)
def test_certificates_that_no_bookie_accepts_end_a_run_before_the_first_look(
    with_tls: Secured, tmp_path: Path, fault: str
) -> None:
    """Exit 5, Spark is not started, nothing is written; `doctor` says the same of each bookie, and
    the word of no other fault.
    """
    faults = wrong_for_tls(with_tls)
    settings, word = faults[fault]
    uri = with_tls.cluster.metadata_service_uri
    done = command_here(
        "run",
        "--metadata-service-uri",
        uri,
        "--output",
        str(tmp_path),
        *flags({**settings, **QUICK}),
    )
    assert done.returncode == 5, done.stderr
    said = " ".join((done.stdout + done.stderr).split())
    assert "all 3 bookies refuse this client" in said
    assert word in said
    assert not list(tmp_path.glob("run-*"))
    looked = doctor(with_tls, settings)
    assert looked.returncode == 5
    lines = [line for line in looked.stdout.splitlines() if line.startswith("MISSING bookie")]
    words = [{known for _, known in faults.values() if known in line} for line in lines]
    assert words == [{word}] * 3, looked.stdout


@pytest.mark.long
def test_a_certificate_without_the_role_that_bookies_want_is_reported(with_tls: Secured) -> None:
    """The right role is accepted. Another role, and none at all, are not reported as a wrong
    certificate.
    """
    with_tls.bookies_want(tls=True, role="auditor")
    try:
        assert doctor(with_tls, with_tls.tls("bookie")).stdout.count("(writable) answered") == 3
        for unit in ("0:reader", ""):
            ours = with_tls.pki.issue(f"role{len(unit)}", **({"unit": unit} if unit else {}))
            looked = doctor(with_tls, with_tls.tls("bookie", ours))
            assert looked.returncode == 5
            assert looked.stdout.count("with one of its authorizedRoles") == 3, looked.stdout
    finally:
        with_tls.bookies_want(tls=True)


@pytest.mark.parametrize("with_tls_too", [False, True])
def test_a_login_that_no_bookie_accepts_ends_the_command_before_the_first_look(
    with_logins: Secured, with_tls_too: bool
) -> None:
    """The password is wrong, the user unknown, or there is no login inside TLS."""
    tls = with_logins.tls("bookie") if with_tls_too else {}
    for wrong in (with_logins.sasl("bookie", "wrong"), with_logins.sasl("bookie", user="nobody")):
        outcome = doctor(with_logins, {**wrong, **tls, **with_logins.sasl("zookeeper")})
        assert outcome.stdout.count("refused the user name or password") == 3, outcome.stdout
        uri = ["--metadata-service-uri", with_logins.cluster.metadata_service_uri]
        done = command_here(
            "ledger",
            str(SOUND),
            *uri,
            *flags({**wrong, **tls, **with_logins.sasl("zookeeper"), **QUICK}),
        )
        assert (
            done.returncode,
            "all 3 bookies refuse this client" in done.stderr + done.stdout,
        ) == (5, True)
    if with_tls_too:
        none = doctor(with_logins, {**tls, **with_logins.sasl("zookeeper")})
        assert none.stdout.count("--bookie-sasl digest-md5") == 3, none.stdout


@pytest.mark.long
@pytest.mark.parametrize("fault", ["password", "digest", "none", "tls to the clear port"])
def test_each_fault_of_a_zookeeper_login_has_its_word(with_logins: Secured, fault: str) -> None:
    """`doctor` names the cause, not a time-out."""
    settings, word = {
        "password": (
            with_logins.sasl("zookeeper", "wrong"),
            "it refused the user name or password",
        ),
        "digest": (with_logins.digest("wrong"), "may not be read by this session"),
        "none": ({}, "may not be read by this session"),
        "tls to the clear port": (with_logins.tls("zookeeper"), "secureClientPort"),
    }[fault]
    done = doctor(with_logins, settings)
    assert (done.returncode, word in done.stdout) == (5, True), done.stdout


@pytest.mark.long
def test_one_bookie_without_tls_is_refused_and_the_others_are_audited(
    with_tls: Secured, tmp_path: Path
) -> None:
    """It is never asked in clear: its copies are unknown, with the reason."""
    restarted = with_tls.cluster
    restarted.kill_bookie("b3")
    restarted.unregister("b3")
    bookie = restarted._bookies["b3"]
    settings, bookie.settings = bookie.settings, {}
    restarted.start_bookie("b3")
    try:
        outcome = audit(restarted, tmp_path, **with_tls.tls("bookie"))
    finally:
        restarted.kill_bookie("b3")
        restarted.unregister("b3")
        bookie.settings = settings
        restarted.start_bookie("b3")
    assert outcome.exit_code in (1, 3)
    assert outcome.summary["indeterminate"]["bookie_refused"] >= 1
    assert outcome.run_dir is not None
    answers = place(str(outcome.run_dir)).read_table("evidence/answers", ANSWERS).to_pylist()
    assert any(
        "offers no TLS" in (row["detail"] or "") for row in answers if row["bookie_id"] == "b3"
    ), answers


@pytest.mark.parametrize(
    "on_spark",
    [
        pytest.param("--ledgers-in-process-max", id="first look"),
        pytest.param("--suspects-in-process-max", id="all looks", marks=pytest.mark.long),
    ],
)
def test_no_secret_is_written_or_shown_anywhere(
    with_logins: Secured, tmp_path: Path, on_spark: str
) -> None:
    """A run on Spark in a process of its own, with a canary in each secret; the secrets
    come from a file, a variable, a command and a client's JAAS file. Spark masks nothing in its
    event log, which has its whole configuration.
    """
    names = ("conf", "events", "out", "local", "temporary")
    spark_conf, events, output, local, temporary = (tmp_path / name for name in names)
    for folder in (spark_conf, events, local, temporary):
        folder.mkdir()
    write_spark_defaults(spark_conf, events)
    settings = (
        with_logins.tls("bookie")
        | with_logins.tls("zookeeper")
        | with_logins.jaas_of_client()
        | QUICK
    )
    key_file = settings.pop("zookeeper_tls_key_password_file")
    settings |= {"zookeeper_tls_key_password_command": f"cat {key_file}"}
    settings |= {
        "zookeeper_sasl": "digest-md5",
        "zookeeper_sasl_username": USER,
        **with_logins.digest(),
    }
    with CommandLines() as seen, FilesWhileTheyExist(local, temporary) as contents:
        done = command(
            "run",
            *(
                "--metadata-service-uri",
                with_logins.uri_with_tls,
                "--output",
                str(output),
                "--verbose",
            ),
            *(on_spark, "0"),
            *flags(settings),
            AUDITOR_ZOOKEEPER_SASL_PASSWORD=ZOOKEEPER_PASSWORD,
            SPARK_CONF_DIR=str(spark_conf),
            SPARK_LOCAL_DIRS=str(local),
            TMPDIR=str(temporary),
        )
    assert done.returncode == 1, done.stderr
    assert CANARY in KEY_PASSWORD and CANARY in DIGEST_PASSWORD and CANARY in PASSWORD
    written = [path for folder in (output, events) for path in folder.rglob("*") if path.is_file()]
    (configuration,) = environments(events)
    assert NOTHING == configuration["Spark Properties"]["spark.redaction.regex"]
    assert "(redacted)" not in str(configuration)
    assert len(written) > 10
    assert [path for path in written if CANARY in words_in(path)] == []
    assert any(path.is_relative_to(local) for path in contents)
    assert [path for path, found in contents.items() if CANARY.encode() in found] == []
    assert any("auditor run" in line for line in seen)
    assert [line for line in seen if CANARY in line] == []
    assert CANARY not in done.stdout + done.stderr
    shown = command("config", *flags(settings), AUDITOR_ZOOKEEPER_SASL_PASSWORD=ZOOKEEPER_PASSWORD)
    assert (shown.returncode, CANARY in shown.stdout) == (0, False)
