"""The settings of placement: the policy that ensembles must satisfy, and where bookies are."""

from __future__ import annotations

from auditor.config.setting import AUDITING, PLACING, Setting
from auditor.config.units import COUNT, DURATION, LIST, SWITCH, one_of

_PLACEMENT = "Placement and topology"
_MINUTE = 60_000

PLACEMENT_SETTINGS = (
    Setting(
        "placement_policy", _PLACEMENT, one_of("none", "rack", "region", "zone"), "none",
        "Placement policy that ensembles must satisfy: the class of the cluster's "
        "ensemblePlacementPolicy. Every policy but none needs topology, unless placement_compat "
        "is java.",
        "The policy of a cluster stands in the settings of its clients, not in its metadata: it "
        "cannot be guessed. A bookie that stands twice in an ensemble is found under none, too. "
        "`demo` brings its own topology and judges racks.",
        commands=AUDITING, elsewhere={"demo": "rack"},
    ),
    Setting(
        "placement_compat", _PLACEMENT, one_of("assigned", "java"), "assigned",
        "assigned: judge bookies by their assigned location, also while they are read-only or "
        "down; region has a real rule; a missing location is topology_unknown. java: judge as "
        "BookKeeper's own classes do, with their defects.",
        "The Java check knows writable bookies only, so that a rolling restart turns good "
        "ensembles into bad ones.",
        commands=AUDITING,
    ),
    Setting(
        "min_num_racks_per_write_quorum", _PLACEMENT, COUNT, "2",
        "Racks that each write quorum must span under the policy rack, at most as many as it has "
        "members (minNumRacksPerWriteQuorum).",
        "BookKeeper's default.",
        low=1, high=100, commands=AUDITING,
    ),
    Setting(
        "enforce_min_num_racks_per_write_quorum", _PLACEMENT, SWITCH, "false",
        "Under the policy rack, reject a write quorum with a bookie in /default-rack "
        "(enforceMinNumRacksPerWriteQuorum).",
        "BookKeeper's default.",
        commands=AUDITING,
    ),
    Setting(
        "min_num_zones_per_write_quorum", _PLACEMENT, COUNT, "2",
        "Zones that each write quorum must span under the policy zone "
        "(minNumZonesPerWriteQuorum).",
        "BookKeeper's default.",
        low=1, high=100, commands=AUDITING,
    ),
    Setting(
        "desired_num_zones_per_write_quorum", _PLACEMENT, COUNT, "3",
        "Zones that each write quorum should span under the policy zone. Fewer, but enough, "
        "adhere softly (desiredNumZonesPerWriteQuorum). Never below "
        "min_num_zones_per_write_quorum.",
        "BookKeeper's default.",
        low=1, high=100, commands=AUDITING,
    ),
    Setting(
        "repp_minimum_regions_for_durability", _PLACEMENT, COUNT, "2",
        "Regions that an acknowledgement needs under the policy region: any fewer regions hold "
        "less than an ack quorum of each write quorum (reppMinimumRegionsForDurability). 1: no "
        "rule.",
        "BookKeeper's default.",
        low=1, high=100, commands=AUDITING,
    ),
    Setting(
        "topology", _PLACEMENT, LIST, None,
        "Sources of bookie locations; the first source that knows a bookie wins. A source is a "
        "table file, zookeeper (Pulsar's /bookies) or an executable script; file:PATH and "
        "script:PATH say which it is. See docs/topology.md.",
        "Not set: a location that nobody gave would be a guess.",
        commands=PLACING, required=frozenset({"topology"}),
    ),
    Setting(
        "topology_script_args_max", _PLACEMENT, COUNT, "100",
        "IP addresses in one call of the script (networkTopologyScriptNumberArgs).",
        "BookKeeper's default.",
        low=1, high=1_000, commands=PLACING,
    ),
    Setting(
        "topology_script_timeout", _PLACEMENT, DURATION, "30s",
        "Longest time that one call of the script may take. After that, the bookies of that call "
        "get no location from it.",
        "A script that reads a table takes milliseconds, one that asks an inventory some "
        "seconds; a run must end.",
        low=100, high=10 * _MINUTE, commands=PLACING,
    ),
)  # fmt: skip
