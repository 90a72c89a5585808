"""What can be on the table: objects that move and fixtures that stay, with their names in plain words.

One fixed order of all of them: every stored array over objects or fixtures follows it, whatever a scene holds.
"""

from __future__ import annotations

CUBES = ("red", "green", "blue", "yellow")
"""Cubes are called by their colours."""

OBJECTS = (*CUBES, "can", "ring", "pot", "bar")
"""Everything that moves freely. ``pot`` and ``bar`` are in the scenes with two arms only."""

CONTAINERS = ("bin", "plate", "bowl")
ZONES = ("white_zone", "black_zone")
JOINTED = ("drawer", "door")
FIXTURES = (*CONTAINERS, *ZONES, "peg", *JOINTED)

OBJECT_INDEX = {name: i for i, name in enumerate(OBJECTS)}
FIXTURE_INDEX = {name: i for i, name in enumerate(FIXTURES)}

NOUNS: dict[str, str] = {
    **{colour: f"{colour} cube" for colour in CUBES},
    "can": "can",
    "ring": "ring",
    "pot": "pot",
    "bar": "bar",
    "bin": "bin",
    "plate": "plate",
    "bowl": "bowl",
    "white_zone": "white zone",
    "black_zone": "black zone",
    "peg": "peg",
    "drawer": "drawer",
    "door": "door",
}
"""Name in an instruction."""

FOOTPRINTS: dict[str, float] = {
    **dict.fromkeys(CUBES, 0.045),
    "can": 0.045,
    "ring": 0.075,
    "pot": 0.1,
    "bar": 0.1,
    "bin": 0.095,
    "plate": 0.085,
    "bowl": 0.085,
    "white_zone": 0.07,
    "black_zone": 0.07,
    "peg": 0.055,
    "drawer": 0.13,
    "door": 0.13,
}
"""Radius of the place that each one needs, metres, with room for the fingers."""

INSIDE: dict[str, float] = {"bin": 0.065, "plate": 0.06, "bowl": 0.055, "white_zone": 0.055, "black_zone": 0.055}
"""How far from a target's middle an object's centre may lie to be in it, metres."""

FLOOR: dict[str, float] = {"bin": 0.006, "plate": 0.008, "bowl": 0.006, "white_zone": 0.0, "black_zone": 0.0}
"""Height of a target's surface above the table, metres."""

JOINT_RANGE: dict[str, float] = {"drawer": 0.13, "door": 1.3}
"""How far the drawer (m) and the door (rad) open."""

PEG_HEIGHT = 0.075
RING_HANDLE_M = 0.055
"""Distance of the ring's handle from its middle."""

POT_GRIP_M = 0.15
"""Distance of each handle from the pot's middle."""

BAR_GRIP_M = 0.095
"""Where the bar is gripped, from its middle."""
