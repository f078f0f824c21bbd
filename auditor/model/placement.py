"""Placement policies, their parameters, and how far an ensemble adheres to them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum


class Policy(StrEnum):
    """The placement policies that ensembles can be judged by."""

    NONE = "none"
    RACK = "rack"
    REGION = "region"
    ZONE = "zone"


class Adherence(IntEnum):
    """BookKeeper's PlacementPolicyAdherence with its numbers, plus UNKNOWN. The lowest is the
    worst.
    """

    FAIL = 1
    UNKNOWN = 2
    SOFT = 3
    STRICT = 5


@dataclass(frozen=True, slots=True)
class PlacementRule:
    """A policy with BookKeeper's own parameters and defaults.

    `java_compatible`: judge like BookKeeper's Java classes, with their defects.
    """

    policy: Policy = Policy.NONE
    java_compatible: bool = False
    min_num_racks_per_write_quorum: int = 2
    enforce_min_num_racks_per_write_quorum: bool = False
    min_num_zones_per_write_quorum: int = 2
    desired_num_zones_per_write_quorum: int = 3
    repp_minimum_regions_for_durability: int = 2
