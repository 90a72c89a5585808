"""Every quality-of-service profile in one place, by name, after REP-2003; and how a subscription adapts to offers.

| name | who uses it |
| --- | --- |
| SENSOR | a camera subscription before adaptation: best effort, newest 5 |
| JOINTS | a joint-state subscription: deep enough for four seconds of 500 Hz while the process is busy |
| MARKERS | episode boundaries: reliable and latched, so that a node that starts late still learns what runs |
| LATCHED | the newest status, for a viewer that comes late |
| REPORTS | the reports of the last ten episodes, for the same |
| RECORDS | estimates, kinematics, events: reliable, deep |
| VIEWS | pictures and markers for people: the newest only; reliable, which serves those who ask for less, too |
| REPLAY | what replay and simulation publish: reliable and deep, so that nothing is lost on those who ask for it |
| CLOCK | /clock: best effort, newest only |
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy


def _profile(
    depth: int,
    reliability: ReliabilityPolicy = ReliabilityPolicy.RELIABLE,
    durability: DurabilityPolicy = DurabilityPolicy.VOLATILE,
) -> QoSProfile:
    return QoSProfile(history=HistoryPolicy.KEEP_LAST, depth=depth, reliability=reliability, durability=durability)


PROFILES: dict[str, QoSProfile] = {
    "SENSOR": _profile(5, ReliabilityPolicy.BEST_EFFORT),
    "JOINTS": _profile(2000, ReliabilityPolicy.BEST_EFFORT),
    "MARKERS": _profile(20, durability=DurabilityPolicy.TRANSIENT_LOCAL),
    "MARKERS_VOLATILE": _profile(20),
    "LATCHED": _profile(1, durability=DurabilityPolicy.TRANSIENT_LOCAL),
    "REPORTS": _profile(10, durability=DurabilityPolicy.TRANSIENT_LOCAL),
    "RECORDS": _profile(500),
    "VIEWS": _profile(1),
    "REPLAY": _profile(2000),
    "REPLAY_IMAGES": _profile(60),
    "CLOCK": _profile(1, ReliabilityPolicy.BEST_EFFORT),
    "DIAGNOSTICS": _profile(20),
}

RELIABILITY_NAMES = {
    ReliabilityPolicy.RELIABLE: "reliable",
    ReliabilityPolicy.BEST_EFFORT: "best effort",
}
DURABILITY_NAMES = {
    DurabilityPolicy.TRANSIENT_LOCAL: "transient local",
    DurabilityPolicy.VOLATILE: "volatile",
}


@dataclass(frozen=True)
class Offer:
    """What one publisher offers."""

    node: str
    reliable: bool
    transient_local: bool

    def __str__(self) -> str:
        return f"{self.node} ({describe(self.reliable, self.transient_local)})"


def describe(reliable: bool, transient_local: bool) -> str:
    """The two policies that decide whether two sides match, in words."""
    return f"{'reliable' if reliable else 'best effort'}, {'transient local' if transient_local else 'volatile'}"


def adapt(depth: int, offers: Iterable[Offer]) -> QoSProfile:
    """The strictest profile that every publisher satisfies: reliable only if all are, latched only if all are.

    Without an offer it is best effort and volatile, which matches every publisher there can be.
    """
    offers = list(offers)
    reliable = bool(offers) and all(offer.reliable for offer in offers)
    latched = bool(offers) and all(offer.transient_local for offer in offers)
    return _profile(
        depth,
        ReliabilityPolicy.RELIABLE if reliable else ReliabilityPolicy.BEST_EFFORT,
        DurabilityPolicy.TRANSIENT_LOCAL if latched else DurabilityPolicy.VOLATILE,
    )


def satisfied_by(profile: QoSProfile, offer: Offer) -> bool:
    """Whether a subscription with this profile receives from a publisher with this offer."""
    reliability_fits = profile.reliability != ReliabilityPolicy.RELIABLE or offer.reliable
    durability_fits = profile.durability != DurabilityPolicy.TRANSIENT_LOCAL or offer.transient_local
    return reliability_fits and durability_fits
