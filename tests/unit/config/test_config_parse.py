"""Settings, parsed from their layers: flags, environment, file and defaults."""

import pickle

import pytest

from auditor.config import (
    SETTINGS,
    BookieLimits,
    Layers,
    Origin,
    ZooKeeperLimits,
    ignored_variables,
    origins,
    parse,
    shown_values,
)
from auditor.config.parse import Settings
from auditor.errors import ConfigError
from auditor.model.evidence import PlacementRule, Policy

KEYS = {setting.key for setting in SETTINGS}
URI = "zk+hierarchical://zk1:2181/ledgers"


def refusal(layers: Layers, command: str | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        parse(layers, command=command)
    return str(caught.value)


def test_flag_beats_environment_beats_file_beats_default():
    """For each key, the strongest layer that has it wins."""
    layers = Layers(
        flags={"looks_max": "7", "tasks": None},
        environment={"AUDITOR_LOOKS_MAX": "6", "AUDITOR_TASKS": "3", "HOME": "/root"},
        file={"looks_max": 5, "tasks": 2, "keep_runs": 9},
    )
    settings = parse(layers)
    assert (settings.looks_max, settings.tasks, settings.keep_runs, settings.output) == (
        7,
        3,
        9,
        "./audits",
    )


def test_each_origin_is_shown_as_it_was_written():
    """`auditor config` says flag, variable or file key."""
    found = origins(Layers({"tasks": "1"}, {"AUDITOR_OUTPUT": "/x"}, {"quiet": True}, "a.toml"))
    assert Origin("flag", "--tasks") == found["tasks"]
    assert Origin("environment", "AUDITOR_OUTPUT") == found["output"]
    assert Origin("file", "quiet in a.toml") == found["quiet"]
    assert Origin("default", "default") == found["format"]
    assert {s.key for s in SETTINGS} == set(found)


@pytest.mark.parametrize(
    ("layers", "written", "right"),
    [
        (Layers(flags={"rpc_time_out": "1s"}), "--rpc-time-out", "--rpc-timeout"),
        (
            Layers(environment={"AUDITOR_BOOKIE_INFLIHGT": "1"}),
            "AUDITOR_BOOKIE_INFLIHGT",
            "AUDITOR_BOOKIE_INFLIGHT",
        ),
        (
            Layers(file={"under-replication-grace": "1h"}, file_name="a.toml"),
            "in a.toml",
            "underreplication_grace",
        ),
        (Layers(file={"Rpc-Timeout": "1h"}), "Rpc-Timeout", "rpc_timeout"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest_right_one(layers, written, right):
    """The message names what the user wrote and, in the same form, what was probably meant."""
    message = refusal(layers)
    assert written in message and f"did you mean {right}?" in message


@pytest.mark.parametrize(
    ("written", "right"),
    [
        ("AUDITOR_OUTPT", "AUDITOR_OUTPUT"),
        ("AUDITOR_METADATA_SERVICE_URL", "AUDITOR_METADATA_SERVICE_URI"),
        ("AUDITOR_CLUSTER_NAME", "AUDITOR_CLUSTER"),
        ("AUDITOR_CONFIG_FILE", "AUDITOR_CONFIG"),
        ("AUDITOR_METADATA", "AUDITOR_METADATA_SERVICE_URI"),
        ("AUDITOR_BOOKIE_SASL_PASWORD", "AUDITOR_BOOKIE_SASL_PASSWORD"),
        ("AUDITOR_LISTENER_PORT", "AUDITOR_LISTER_PORT"),
    ],
)
def test_a_variable_that_resembles_a_setting_is_a_misspelt_one(written, right):
    """By a typing error, a word too many or a word too few."""
    message = refusal(Layers(environment={written: "1"}))
    assert written in message and f"did you mean {right}?" in message


SERVICE_LINKS = {
    "SERVICE_HOST": "10.0.0.1",
    "SERVICE_PORT": "8080",
    "SERVICE_PORT_HTTP_METRICS": "8080",
    "PORT": "tcp://10.0.0.1:8080",
    "PORT_8080_TCP": "tcp://10.0.0.1:8080",
    "PORT_8080_TCP_PROTO": "tcp",
    "PORT_8080_TCP_PORT": "8080",
    "PORT_8080_TCP_ADDR": "10.0.0.1",
    "PORT_53_UDP": "udp://10.0.0.1:53",
}
"""What Kubernetes puts into each pod for a Service, behind the Service's name."""


@pytest.mark.parametrize("service", ["auditor", "auditor-lister", "auditor-pushgateway"])
def test_variables_that_kubernetes_makes_for_a_service_are_no_settings(service):
    """AUDITOR_LISTER_PORT is a setting, and is not one where a Service made it."""
    prefix = service.upper().replace("-", "_")
    environment = {f"{prefix}_{name}": value for name, value in SERVICE_LINKS.items()}
    assert parse() == parse(Layers(environment=environment))
    assert sorted(environment) == ignored_variables(environment)


@pytest.mark.parametrize("name", ["HOME", "VERSION", "IMAGE", "LISTER_VERSION", "PORT", "", "USER"])
def test_a_variable_that_no_setting_resembles_is_ignored(name):
    """It belongs to somebody else; `auditor config` names it."""
    environment = {f"AUDITOR_{name}": "x", "AUDITOR_OUTPUT": "/a"}
    assert "/a" == parse(Layers(environment=environment)).output
    assert [f"AUDITOR_{name}"] == ignored_variables(environment)


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.key)
def test_every_setting_with_one_letter_less_is_misspelt(setting):
    """Wherever the letter is missing, the message names a setting."""
    for at in range(len(setting.key)):
        key = setting.key[:at] + setting.key[at + 1 :]
        if key in KEYS:
            continue
        variable = f"AUDITOR_{key.upper()}"
        assert f"{variable} in the environment" in refusal(Layers(environment={variable: "1"}))


@pytest.mark.parametrize("key", ["html"])
def test_a_setting_of_a_later_version_is_unknown(key):
    """A setting without an effect is not accepted."""
    assert f"{key} in" in refusal(Layers(file={key: "x"}))


def _needed_beside(key):
    """Return the variables without which a setting of a secured cluster has no effect, and is
    refused.
    """
    peer, _, rest = key.partition("_")
    at = f"AUDITOR_{peer.upper()}_"
    if rest.startswith("tls_") and rest != "tls_hostname_verification":
        return {
            f"{at}TLS": "on",
            **({f"{at}TLS_CERTIFICATE": "ours.pem"} if rest == "tls_key" else {}),
        }
    if key == "lister_tls":
        return {"AUDITOR_LISTER_PORT": "3182"}
    if rest in ("sasl_keytab", "sasl_principal", "sasl_ticket_cache"):
        return {f"{at}SASL": "gssapi"}
    if rest.startswith("sasl_"):
        needed = {f"{at}SASL": "digest-md5", f"{at}SASL_USERNAME": "u", f"{at}SASL_PASSWORD": "p"}
        return {name: value for name, value in needed.items() if name != f"AUDITOR_{key.upper()}"}
    return {}


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda s: s.key)
def test_every_setting_is_understood_from_every_layer(setting):
    """The same text as a flag, a variable and a key of the file gives the same value of the
    setting's field.
    """
    samples = {"metadata_service_uri": URI, "pushgateway": "http://host:9091", "cluster": "prod"}
    samples["runbooks"] = "https://docs.example.org/auditor"
    samples["window"] = "22:00-04:00 Europe/Berlin"
    samples |= {"listen_tls": "on", "lister_tls": "on"}
    text = samples.get(setting.key) or setting.default or "somewhere"
    beside = _needed_beside(setting.key)
    for layers in (
        Layers(flags={setting.key: text}, environment=beside),
        Layers(environment={**beside, setting.variable: text}),
        Layers(file={setting.key: text}, environment=beside),
    ):
        assert setting.parse(text) == getattr(parse(layers), setting.field)


@pytest.mark.parametrize(
    "setting", [s for s in SETTINGS if s.high is not None], ids=lambda s: s.key
)
def test_every_range_is_closed_and_kept(setting):
    """Both ends and the default are accepted. A value beyond an end is refused with the name of the
    setting.
    """
    write = (lambda ms: f"{ms}ms") if setting.metavar == "DURATION" else str
    assert setting.low == setting.parse(write(setting.low)) and setting.high == setting.parse(
        write(setting.high)
    )
    beyond = [setting.high + 1] + ([setting.low - 1] if setting.low else [])
    for value in beyond:
        message = refusal(Layers(environment={setting.variable: write(value)}))
        assert (
            message.startswith(f"{setting.variable} = ")
            and "out of range" in message
            and setting.range_text in message
        )
    assert setting.parse(setting.default) is not None


def test_settings_have_a_field_for_each_setting_and_no_other():
    """The table and the dataclass are one list, but for the names of the secrets that the
    environment or a JAAS file has.
    """
    secrets = {"secrets_in_environment", "secrets_in_jaas"}
    assert {s.field for s in SETTINGS} | secrets == set(Settings.__dataclass_fields__)


def test_the_defaults_of_the_limits_are_the_defaults_of_the_settings():
    """Limits built without settings have the documented defaults."""
    assert BookieLimits() == parse().bookie_limits()
    assert ZooKeeperLimits() == parse().zookeeper_limits(readers=1)


def test_readers_share_the_zookeeper_rate():
    """The rate is that of the whole job. 0 stays without a limit."""
    for whole, share in ((9_000, 3_000), (0, 0)):
        limits = parse(Layers(file={"zookeeper_reads_per_second": whole})).zookeeper_limits(3)
        assert share == limits.zookeeper_reads_per_second


@pytest.mark.parametrize(
    ("expected_ms", "command"),
    [(300_000, None), (300_000, "run"), (1_000, "ledger"), (2_000, "demo")],
)
def test_the_second_look_of_a_single_ledger_comes_sooner(expected_ms, command):
    """Commands may differ in their default. A value that is set holds for all of them."""
    written = Layers(flags={"metadata_service_uri": URI})
    assert expected_ms == parse(written, command=command).second_look_delay_ms
    asked = Layers(flags={"metadata_service_uri": URI}, file={"second_look_delay": "9s"})
    assert parse(asked, command=command).second_look_delay_ms == 9_000


@pytest.mark.parametrize("command", ["run", "ledger", "topology"])
def test_no_cluster_is_audited_by_default(command):
    """Where the metadata service must be named, the message gives all three ways."""
    message = refusal(Layers(), command)
    assert all(
        way in message
        for way in ("--metadata-service-uri", "AUDITOR_METADATA_SERVICE_URI", "the key in a file")
    )
    assert parse(command="demo").metadata_service_uri is None


@pytest.mark.parametrize("word", ["rack", "region", "zone"])
def test_a_placement_policy_needs_a_topology(word):
    """The locations of bookies are never guessed. BookKeeper's Java classes judge without a
    topology, and so does --placement-compat java. The error for an unknown word has the list.
    """
    message = refusal(Layers(flags={"placement_policy": word}))
    assert (
        f"--placement-policy ({word})" in message
        and "--topology FILE, zookeeper or SCRIPT" in message
    )
    assert (
        PlacementRule(Policy(word))
        == parse(Layers({"placement_policy": word, "topology": "zookeeper"})).placement_rule()
    )
    java = Layers(flags={"placement_policy": word, "placement_compat": "java"})
    assert PlacementRule(Policy(word), java_compatible=True) == parse(java).placement_rule()
    assert "is not one of none, rack, region, zone" in refusal(
        Layers(flags={"placement_policy": "rak"})
    )


def test_the_demo_brings_a_topology_of_its_own():
    """It judges racks without --topology. Maintenance may name a location too."""
    settings = parse(Layers(flags={"maintenance": "/r1"}), command="demo")
    assert (Policy.RACK, None) == (settings.placement_rule().policy, settings.topology)


def test_the_placement_rule_has_bookkeepers_defaults_and_what_is_set():
    """Without any setting the rule has BookKeeper's defaults. Each setting arrives at its own
    field.
    """
    assert PlacementRule() == parse().placement_rule()
    written = {
        "placement_policy": "zone",
        "placement_compat": "java",
        "min_num_racks_per_write_quorum": 4,
        "enforce_min_num_racks_per_write_quorum": True,
        "min_num_zones_per_write_quorum": 5,
        "desired_num_zones_per_write_quorum": 6,
        "repp_minimum_regions_for_durability": 7,
    }
    assert (
        PlacementRule(Policy.ZONE, True, 4, True, 5, 6, 7)
        == parse(Layers(file=written)).placement_rule()
    )


def test_a_list_is_a_line_with_commas_or_an_array():
    """Each item is kept once, in order. A flag and the file give the same list."""
    expected = ("racks.txt", "zookeeper")
    assert expected == parse(Layers(flags={"topology": "racks.txt, zookeeper,racks.txt"})).topology
    assert expected == parse(Layers(file={"topology": ["racks.txt", "zookeeper"]})).topology
    assert "has an item that is empty or not text" in refusal(
        Layers(flags={"topology": "racks.txt,,zookeeper"})
    )
    assert "more than 256 items" in refusal(
        Layers(flags={"maintenance": ",".join(f"b{n}" for n in range(257))})
    )


@pytest.mark.parametrize(
    ("layers", "names"),
    [
        (
            Layers(flags={"quiet": True}, environment={"AUDITOR_VERBOSE": "yes"}),
            ["--quiet", "AUDITOR_VERBOSE"],
        ),
        (
            Layers(file={"rpc_timeout": "60s", "bookie_deadline": "60s"}),
            ["rpc_timeout in", "bookie_deadline in"],
        ),
        (
            Layers(environment={"AUDITOR_BOOKIE_DEADLINE": "4s"}),
            ["rpc_timeout (10s, the default)", "AUDITOR_BOOKIE_DEADLINE (4s)"],
        ),
        (
            Layers(flags={"bookie_connect_timeout": "9m", "bookie_deadline": "9m"}),
            ["--bookie-connect-timeout", "--bookie-deadline"],
        ),
        (
            Layers(flags={"spark_stall_max": "30m"}),
            ["--spark-stall-max (30m)", "bookie_deadline (30m, the default)"],
        ),
        (
            Layers(flags={"min_num_zones_per_write_quorum": "4"}),
            [
                "--min-num-zones-per-write-quorum (4)",
                "desired_num_zones_per_write_quorum (3, the default)",
            ],
        ),
        (Layers(flags={"maintenance": "b1,/r1"}), ["--maintenance (b1,/r1)", "--topology"]),
    ],
)
def test_limits_that_make_no_sense_together_are_refused(layers, names):
    """Each is in its range. The error names both as they were written."""
    message = refusal(layers)
    assert all(name in message for name in names), message


def test_a_second_look_at_once_is_allowed():
    """0 is a legal delay: the second look is still a look."""
    assert parse(Layers(flags={"second_look_delay": "0"})).second_look_delay_ms == 0


def test_a_flag_may_take_back_a_switch():
    """False as a flag beats true in the file."""
    assert not parse(Layers(flags={"quiet": False}, file={"quiet": True})).quiet


def test_a_password_is_never_taken_from_a_flag_and_never_shown():
    """From the environment it is accepted, masked wherever settings are shown, and not in repr."""
    secret = "http://joe:s3cr3t@gateway:9091"
    message = refusal(Layers(flags={"pushgateway": secret}))
    assert (
        "--pushgateway" in message and "AUDITOR_PUSHGATEWAY" in message and "s3cr3t" not in message
    )
    settings = parse(Layers(environment={"AUDITOR_PUSHGATEWAY": secret}))
    assert settings.pushgateway == secret
    assert shown_values(settings)["pushgateway"] == "http://***@gateway:9091"
    assert "s3cr3t" not in repr(settings) + refusal(
        Layers(environment={"AUDITOR_PUSHGATEWAY": secret.replace("http", "ftp")})
    )
    in_pages = refusal(Layers(environment={"AUDITOR_RUNBOOKS": secret}))
    assert "would be in every page" in in_pages and "s3cr3t" not in in_pages


def test_what_is_shown_parses_to_the_same_settings():
    """The effective settings can be pasted into a file."""
    settings = parse(Layers(file={"rpc_timeout": "1500ms", "frame_bytes_max": "100MB", "tasks": 3}))
    assert settings == parse(
        Layers(file={key: text for key, text in shown_values(settings).items() if text})
    )


def test_settings_travel():
    """They can be pickled and hashed, because they go to executors."""
    settings = parse()
    assert settings == pickle.loads(pickle.dumps(settings)) and hash(settings) == hash(parse())


@pytest.mark.parametrize("value", [["1s"], {"s": 1}, True, 1.5, "1 s\n2"])
def test_a_value_of_another_type_is_refused_by_key(value):
    """TOML may hold anything; the message names the key."""
    assert "rpc_timeout in a.toml" in refusal(
        Layers(file={"rpc_timeout": value}, file_name="a.toml")
    )
