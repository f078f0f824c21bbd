"""Placement against brute force.

Every place where a member without location could be is tried. The reference spells out each rule as
its loops, one concrete ensemble at a time. Every failure names its seed: `story(seed)` makes that
story again.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations, product
from pathlib import Path
from random import Random
from types import ModuleType

import pytest
from support.quick_forms import one_in

from auditor.first_checker import placement
from auditor.first_checker.placement import Judged, adherence
from auditor.model.cluster import Surroundings
from auditor.model.evidence import Adherence, PlacementRule, Policy

FAIL, UNKNOWN, SOFT, STRICT = Adherence.FAIL, Adherence.UNKNOWN, Adherence.SOFT, Adherence.STRICT
STORIES = 3_000
UNPLACED_MAX = 3
"""Bookies without location in one story: their places are tried in all combinations."""

Places = Mapping[str, str]
"""A location for every bookie of an ensemble."""


@dataclass(frozen=True)
class Story:
    """An ensemble to be judged, and the cluster around it."""

    seed: int
    ensemble: tuple[str, ...]
    write_quorum: int
    ack_quorum: int
    rule: PlacementRule
    around: Surroundings

    def windows(self) -> list[tuple[str, ...]]:
        size = len(self.ensemble)
        return [
            tuple(self.ensemble[(i + j) % size] for j in range(self.write_quorum))
            for i in range(size)
        ]

    def unplaced(self) -> list[str]:
        return sorted({bookie for bookie in self.ensemble if bookie not in self.around.locations})

    def judged(self) -> Judged:
        return adherence(self.ensemble, self.write_quorum, self.ack_quorum, self.rule, self.around)


def story(seed: int) -> Story:
    """Return a story with few racks, zones and regions, so that they collide; every third ensemble
    has a bookie that may occur twice.
    """
    rng = Random(seed)
    policy = rng.choice([Policy.RACK, Policy.ZONE, Policy.REGION])
    bookies = [f"b{k}" for k in range(8)]
    unplaced = set(rng.sample(bookies, rng.randint(0, UNPLACED_MAX)))
    kinds = {
        Policy.RACK: ["/r1", "/r2", "/r3", "/default-rack"],
        Policy.ZONE: ["/z1/u1", "/z1/u2", "/z2/u1", "/z2/u2", "/z3/u1", "/z3/u2"],
        Policy.REGION: ["/a/r1", "/a/r2", "/b/r1", "/b/r2", "/c/r1", "/d/r1"],
    }[policy]
    if policy is Policy.ZONE and rng.random() < 0.1:
        kinds = [*kinds, "/z1", "/z1/u1/deep", "/default-zone/default-upgradedomain"]
    locations = {bookie: rng.choice(kinds) for bookie in bookies if bookie not in unplaced}
    size = rng.randint(1, 6)
    ensemble = rng.choices(bookies, k=size) if rng.random() < 1 / 3 else rng.sample(bookies, size)
    write = rng.choice(
        [
            w
            for w in range(1, size + 1)
            if policy is not Policy.ZONE or size % w == 0 or rng.random() < 0.1
        ]
    )
    minimum = rng.randint(1, 3)
    rule = PlacementRule(
        policy,
        java_compatible=False,
        min_num_racks_per_write_quorum=minimum,
        enforce_min_num_racks_per_write_quorum=rng.random() < 0.3,
        min_num_zones_per_write_quorum=rng.randint(1, 2),
        desired_num_zones_per_write_quorum=rng.randint(2, 3),
        repp_minimum_regions_for_durability=minimum,
    )
    registered = rng.sample(bookies, rng.randint(4, 8))
    cut = rng.randint(0, len(registered))
    around = Surroundings(frozenset(registered[:cut]), frozenset(registered[cut:]), locations)
    ack = write + 1 if rng.random() < 0.1 else rng.randint(1, write)
    return Story(seed, tuple(ensemble), write, ack, rule, around)


# The rules, spelled out for places that are all known


def rack_window(members: tuple[str, ...], places: Places, story: Story) -> Adherence:
    racks = {places[member] for member in members if member in places}
    if len(racks) < min(story.write_quorum, story.rule.min_num_racks_per_write_quorum):
        return FAIL
    return (
        FAIL
        if story.rule.enforce_min_num_racks_per_write_quorum and "/default-rack" in racks
        else STRICT
    )


def zone_window(members: tuple[str, ...], places: Places, story: Story) -> Adherence:
    rule = story.rule
    if (
        len(story.ensemble) % story.write_quorum != 0
        or story.write_quorum <= rule.min_num_zones_per_write_quorum
    ):
        return FAIL
    found: list[tuple[str, str]] = []
    for member in members:
        parts = places[member].strip("/").split("/")
        if len(parts) != 2 or places[member] == "/default-zone/default-upgradedomain":
            return FAIL
        found.append((parts[0], parts[1]))
    zones = {zone for zone, _ in found}
    if len(zones) < rule.min_num_zones_per_write_quorum:
        return FAIL
    for zone in zones:
        domains = [domain for of, domain in found if of == zone]
        if len(domains) >= 2 and len(set(domains)) < 2:
            return FAIL
    return (
        SOFT
        if len(zones) < min(story.write_quorum, rule.desired_num_zones_per_write_quorum)
        else STRICT
    )


def region_window(members: tuple[str, ...], places: Places, story: Story) -> Adherence:
    least = story.rule.repp_minimum_regions_for_durability
    if least <= 1:
        return STRICT
    regions = [places[member].split("/")[1] for member in members]
    everywhere = sorted({*regions, *(f"nobody's {k}" for k in range(least))})
    alone = any(
        sum(region in chosen for region in regions) > story.ack_quorum - 1
        for chosen in combinations(everywhere, least - 1)
    )
    return FAIL if alone else STRICT


def span(places: Places, story: Story) -> Adherence:
    """Return what the region rule says of the ensemble as a whole; the other rules say nothing."""
    if story.rule.policy is not Policy.REGION:
        return STRICT
    regions = {places[member].split("/")[1] for member in story.ensemble}
    return FAIL if len(regions) < story.rule.repp_minimum_regions_for_durability else STRICT


WINDOW: dict[Policy, Callable[[tuple[str, ...], Places, Story], Adherence]] = {
    Policy.RACK: rack_window,
    Policy.ZONE: zone_window,
    Policy.REGION: region_window,
}


def concrete(places: Places, story: Story) -> Adherence:
    """Return how the ensemble adheres if every place is known."""
    window = WINDOW[story.rule.policy]
    return min(
        span(places, story), *(window(members, places, story) for members in story.windows())
    )


def candidates(story: Story) -> list[str]:
    """Return every place of a bookie that makes a difference: where others are, somewhere new, in
    the default location.
    """
    there = set(story.around.locations.values())
    if story.rule.policy is Policy.RACK:
        return [*there, *(f"/new{k}" for k in range(UNPLACED_MAX)), "/default-rack"]
    first = {place.split("/")[1] for place in there}
    if story.rule.policy is Policy.REGION:
        return [*(f"/{region}/r" for region in first), *(f"/new{k}/r" for k in range(UNPLACED_MAX))]
    old = {f"/{zone}/{domain}" for zone in first for domain in ("u1", "u2", "u3")}
    new = [f"/new{k}/u{j}" for k in range(UNPLACED_MAX) for j in (1, 2)]
    return [*old, *new, "/default-zone/default-upgradedomain"]


def everywhere(story: Story, bookies: list[str]) -> Iterator[dict[str, str]]:
    """Yield every combination of places for these bookies, beside those whose place is known."""
    for chosen in product(candidates(story), repeat=len(bookies)):
        yield {**story.around.locations, **dict(zip(bookies, chosen, strict=True))}


def decided(outcomes: set[Adherence]) -> Adherence:
    """Return FAIL if every place fails, the worst outcome if none fails, and unknown otherwise."""
    if outcomes == {FAIL}:
        return FAIL
    return UNKNOWN if FAIL in outcomes else min(outcomes)


def window_by_window(story: Story) -> Adherence:
    """Return the worst outcome of the windows, each tried with every place of its own members."""
    worst = decided({span(places, story) for places in everywhere(story, story.unplaced())})
    for members in set(story.windows()):
        open_members = sorted(
            {member for member in members if member not in story.around.locations}
        )
        window = WINDOW[story.rule.policy]
        worst = min(
            worst,
            decided({window(members, places, story) for places in everywhere(story, open_members)}),
        )
    return worst


def at_once(story: Story) -> Adherence:
    """Return the outcome of the ensemble as a whole, tried with every place of all its members at
    once.
    """
    return decided({concrete(places, story) for places in everywhere(story, story.unplaced())})


def problems(story: Story) -> list[str]:
    """Return everything wrong with how a story was judged by assigned location."""
    said, found = story.judged(), []
    crowds = any(story.ensemble.count(bookie) > 1 for bookie in story.unplaced())
    exact = story.rule.policy is not Policy.ZONE or not crowds
    if exact and said.adherence is not (right := window_by_window(story)):
        found.append(f"{said.adherence.name}, and window by window it is {right.name}")
    truth = at_once(story)
    if story.rule.policy is not Policy.ZONE and said.adherence is not truth:
        found.append(f"{said.adherence.name}, and tried everywhere it is {truth.name}")
    if said.adherence is not UNKNOWN and said.adherence is not truth:
        found.append(f"{said.adherence.name} is claimed, and tried everywhere it is {truth.name}")
    if any(window.adherence is not said.adherence or not window.why for window in said.windows):
        found.append("a window is shown that did not decide, or not why")
    if (said.adherence is STRICT) != (not said.windows):
        found.append("windows are shown of what is strict, or none of what is not")
    return found


def java(story: Story) -> Adherence:
    """Return what the Java classes say, by the locations that they see."""
    around, rule = story.around, story.rule
    if rule.policy is Policy.REGION:
        return STRICT
    places: dict[str, str] = {}
    for bookie in story.ensemble:
        if rule.policy is Policy.RACK:
            if bookie in around.writable:
                places[bookie] = around.locations.get(bookie, "/default-rack")
        elif bookie in around.writable | around.readonly:
            places[bookie] = around.locations.get(bookie, "/default-zone/default-upgradedomain")
        else:
            places[bookie] = "/default-region/default-rack"
    return concrete(places, story)


def as_java(story: Story) -> Adherence:
    """Return what our Java mode says."""
    rule = replace(story.rule, java_compatible=True)
    return adherence(
        story.ensemble, story.write_quorum, story.ack_quorum, rule, story.around
    ).adherence


def check(stories: int) -> Counter[str]:
    """Compare each story. Raises at the first that is judged wrongly; returns what the stories were
    about.
    """
    seen: Counter[str] = Counter()
    for seed in range(stories):
        one = story(seed)
        wrong = problems(one)
        if (said := as_java(one)) is not (right := java(one)):
            wrong.append(f"java mode says {said.name}, Java {right.name}")
        assert not wrong, f"seed {seed}: {one}: {wrong}"
        said = one.judged().adherence
        seen[f"{one.rule.policy} {said.name}"] += 1
        seen[f"{one.rule.policy} {said.name} with a member without location"] += bool(
            one.unplaced()
        )
        seen[f"{one.rule.policy} other than Java"] += said is not right
    return seen


@pytest.fixture(scope="module")
def swarm() -> Counter[str]:
    """Assert that every story is judged rightly; return what they were about."""
    return check(STORIES)


def test_every_ensemble_is_judged_as_if_every_place_had_been_tried(swarm: Counter[str]) -> None:
    """It is FAIL if and only if every place of the members without location fails, STRICT or SOFT
    if and only if every place holds, each window by itself. In Java mode it is what the Java
    classes say.
    """
    assert STORIES == sum(
        swarm[f"{policy} {word.name}"]
        for policy in ("rack", "zone", "region")
        for word in Adherence
    )


@pytest.mark.parametrize(
    "subject",
    [
        *(
            f"{policy} {word}"
            for policy in ("rack", "zone", "region")
            for word in ("FAIL", "UNKNOWN", "STRICT")
        ),
        *(f"{policy} FAIL with a member without location" for policy in ("rack", "zone", "region")),
        *(f"{policy} STRICT with a member without location" for policy in ("rack", "region")),
        *(f"{policy} other than Java" for policy in ("rack", "zone", "region")),
        "zone SOFT",
    ],
)
def test_the_stories_are_about_everything(swarm: Counter[str], subject: str) -> None:
    """An outcome without a story would not be tested."""
    assert swarm[subject] >= 10


# Planted bugs: each must be noticed by the check above

PLANTED = {
    "one write set is as good as all": (
        "ensemble_size if write_quorum < ensemble_size else 1",
        "1",
    ),
    "the last write set is left out": (
        "ensemble_size if write_quorum < ensemble_size else 1",
        "max(1, ensemble_size - 1)",
    ),
    "write sets do not wrap round": (
        "(index + step) % size for",
        "min(index + step, size - 1) for",
    ),
    "what is unknown hides what fails": ("worst = min((window.", "worst = max((window."),
    "a bookie without location is in the default rack": (
        "        return assigned\n",
        "        return assigned or DEFAULT_RACK\n",
    ),
    "only writable bookies have a location": (
        "        return assigned\n",
        "        return assigned if bookie in around.writable else None\n",
    ),
    "Java knows read-only bookies": (
        "if bookie in around.writable else None",
        "if bookie in around.writable | around.readonly else None",
    ),
    "Java leaves a writable bookie without location out": (
        "(assigned or DEFAULT_RACK)",
        "assigned",
    ),
    "an offline bookie is no extra zone to Java": (
        "    return DEFAULT_REGION\n",
        "    return assigned or DEFAULT_ZONE\n",
    ),
    "Java's zones know writable bookies only": (
        "if bookie in around.writable or bookie in around.readonly",
        "if bookie in around.writable",
    ),
    "Java has a region rule": ("return rule.java_compatible or rule.repp", "return rule.repp"),
    "two regions are no rule either": ("durability <= 1", "durability <= 2"),
    "members without location are left out": (
        "        if self.rule.java_compatible:\n",
        "        if True:\n",
    ),
    "a bookie that stands twice is two": (
        "            b for b, place in zip(self.members, self.locations, strict=True)",
        "            b for b, place in enumerate(self.locations)",
    ),
    "the write quorum bounds no racks": (
        "min(view.write_quorum, view.rule.min_num_racks_per_write_quorum)",
        "view.rule.min_num_racks_per_write_quorum",
    ),
    "the default rack is never held against": ("enforce and DEFAULT_RACK in racks", "False"),
    "the default rack is always held against": (
        "enforce and DEFAULT_RACK in racks",
        "DEFAULT_RACK in racks",
    ),
    "what is without location is in a rack of its own": (
        "max(len(racks), min(1, unplaced)) < need",
        "len(racks) + unplaced < need",
    ),
    "what is without location may be in no rack": (
        "max(len(racks), min(1, unplaced)) < need",
        "len(racks) < need",
    ),
    "what is without location is not in the default rack": (
        "if enforce and unplaced:",
        "if False:",
    ),
    "too few racks fail, whatever is unknown": (
        "if len(racks) + unplaced < need",
        "if len(racks) < need",
    ),
    "the ensemble may have any size": ("if size % write_quorum:", "if False:"),
    "as many zones as the write quorum may be needed": (
        "write_quorum <= rule.min_num",
        "write_quorum < rule.min_num",
    ),
    "a location that is no zone is not known": (
        'return Adherence.FAIL, f"has {member} at',
        'return Adherence.UNKNOWN, f"has {member} at',
    ),
    "the default zone is a zone": ("place == DEFAULT_ZONE or len", "len"),
    "upgrade domains are not looked at": (
        "if len(some) > 1 and len(set(some)) < 2",
        "if False",
    ),
    "each member needs an upgrade domain of its own": (
        "len(set(some)) < 2",
        "len(set(some)) < len(some)",
    ),
    "what is without location cannot lend an upgrade domain": (
        "len(crowded) > unplaced",
        "len(crowded) > 0",
    ),
    "what lends an upgrade domain is a zone beside": (
        "len(domains) + unplaced - len(crowded) < least",
        "len(domains) + unplaced < least",
    ),
    "what is without location is no zone": (
        "len(domains) + unplaced - len(crowded) < least",
        "len(domains) < least",
    ),
    "what is without location is in a good zone": (
        '    if unplaced:\n        return Adherence.UNKNOWN, f"{named}',
        '    if False:\n        return Adherence.UNKNOWN, f"{named}',
    ),
    "soft is strict": ("return Adherence.SOFT, f", "return Adherence.STRICT, f"),
    "more zones are desired than there are members": (
        "min(view.write_quorum, view.rule.desired",
        "max(view.write_quorum, view.rule.desired",
    ),
    "any span of regions will do": (
        "    elif rule.policy is Policy.REGION:\n        said",
        "    elif False:\n        said",
    ),
    "the span of regions counts what is unknown": (
        "if max(len(regions), min(1, unplaced)) >= need",
        "if len(regions) + unplaced >= need",
    ),
    "a region is a whole location": ("_parts(place)[0]", "place"),
    "one region fewer is looked at": (
        "fullest = counts.most_common(few)",
        "fullest = counts.most_common(max(1, few - 1))",
    ),
    "as many as the ack quorum may be in few regions": (
        "allowed = view.ack_quorum - 1",
        "allowed = view.ack_quorum",
    ),
    "what is without location is in a region of its own": (" + sum(unplaced.values())\n", " + 0\n"),
    "what is without location is in the fullest region": (
        "if at_best > allowed",
        "if at_worst > allowed",
    ),
    "what is without location is nowhere": (
        "[*counts.values(), *unplaced.values()]",
        "[*counts.values()]",
    ),
}


def plant(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Judge by the rules with one change in their text. The text must occur once: a bug that is not
    planted proves nothing.
    """
    right, wrong = PLANTED[bug]
    text = Path(placement.__file__ or "").read_text(encoding="utf-8")
    times = text.count(right)
    assert 1 == times, f"{bug}: {right!r} stands {times} times in the rules"
    rules = ModuleType(placement.__name__)
    with monkeypatch.context() as while_executed:  # its dataclasses look for their module
        while_executed.setitem(sys.modules, placement.__name__, rules)
        exec(compile(text.replace(right, wrong), bug, "exec"), rules.__dict__)
    monkeypatch.setattr(placement, "judge", rules.judge)
    monkeypatch.setattr(placement, "has_no_rule", rules.has_no_rule)


@pytest.mark.parametrize("bug", one_in(5, PLANTED))
def test_the_check_notices_a_planted_bug(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check above fails for rules with this bug."""
    plant(bug, monkeypatch)
    with pytest.raises(AssertionError, match=r"^seed \d+"):
        check(STORIES)


def test_without_a_change_the_planted_rules_are_right(monkeypatch: pytest.MonkeyPatch) -> None:
    """The failures above come from the bug, not from the way it is planted."""
    monkeypatch.setitem(PLANTED, "none", ("STRICT = Judged(", "STRICT = Judged("))
    plant("none", monkeypatch)
    assert check(200)
