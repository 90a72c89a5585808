"""The scene as MJCF: table, room, everything of the catalogue, and one arm or two. All shapes are primitive."""

from __future__ import annotations

import importlib.util
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np

from rollout_monitor.sim.tabletop.arms import ArmSpec
from rollout_monitor.sim.tabletop.catalogue import CUBES, JOINT_RANGE, JOINTED, PEG_HEIGHT

TABLE_Z = 0.8
TABLE_HALF = (0.45, 0.5, 0.025)
NOWHERE_Z = -3.0
"""Absent things wait here, below the floor."""

TEXTURES = {
    "table": ("ceramic", "light-wood", "dark-wood", "gray-woodgrain", "cream-plaster", "gray-felt", "clay", "metal"),
    "floor": ("light-gray-floor-tile", "wood-tiles", "gray-plaster", "dirt"),
    "walls": ("light-gray-plaster", "white-bricks", "yellow-plaster", "pink-plaster"),
}
PALETTE = {
    "red": (0.85, 0.10, 0.08),
    "green": (0.10, 0.62, 0.15),
    "blue": (0.10, 0.25, 0.85),
    "yellow": (0.92, 0.80, 0.10),
    "can": (0.75, 0.72, 0.70),
    "ring": (0.55, 0.25, 0.60),
    "pot": (0.35, 0.35, 0.38),
    "bar": (0.70, 0.45, 0.20),
    "bin": (0.45, 0.35, 0.28),
    "plate": (0.92, 0.92, 0.90),
    "bowl": (0.30, 0.60, 0.65),
    "white_zone": (0.97, 0.97, 0.97),
    "black_zone": (0.05, 0.05, 0.05),
    "peg": (0.60, 0.50, 0.35),
    "drawer": (0.60, 0.45, 0.30),
    "door": (0.50, 0.52, 0.58),
    "handle": (0.20, 0.20, 0.22),
}
"""Plain colour of everything; a take's look varies it a little."""

DENSITY = 400.0
FRICTION = "1.0 0.01 0.0002"
UMI_GRASP_POINT = "0.205 0.002 0"
SOLID = {"condim": "4", "friction": FRICTION, "solref": "0.008 1", "solimp": "0.95 0.99 0.001", "group": "1"}
PICTURE_ONLY = {"contype": "0", "conaffinity": "0", "group": "1"}


def texture_folder() -> Path:
    """Where robosuite keeps its pictures."""
    found = importlib.util.find_spec("robosuite")
    assert found is not None  # noqa: S101 - the world has imported it
    assert found.origin is not None  # noqa: S101 - a package
    return Path(found.origin).parent / "models" / "assets" / "textures"


def add(parent: ET.Element, tag: str, **values: Any) -> ET.Element:
    """Append an MJCF element; sequences become numbers separated by spaces."""
    text = {
        key.rstrip("_"): " ".join(f"{v:.6g}" for v in value)
        if isinstance(value, (tuple, list, np.ndarray))
        else str(value)
        for key, value in values.items()
        if value is not None
    }
    return ET.SubElement(parent, tag, text)


def furnish(root: ET.Element) -> None:
    """Put room, table, light, cameras, objects and fixtures into an MJCF document."""
    worldbody, asset = root.find("worldbody"), root.find("asset")
    assert worldbody is not None  # noqa: S101 - robosuite's base document has both
    assert asset is not None  # noqa: S101
    _materials(asset)
    _room(worldbody)
    for colour in CUBES:
        body = _free(worldbody, colour, 0.05, 2e-5)
        add(body, "geom", name=colour, type="box", size=(0.02,) * 3, rgba=(*PALETTE[colour], 1), **SOLID)
    can = _free(worldbody, "can", 0.06, 4e-5)
    add(can, "geom", name="can", type="cylinder", size=(0.024, 0.04), rgba=(*PALETTE["can"], 1), **SOLID)
    _ring(worldbody)
    _containers(worldbody)
    _zones_and_peg(worldbody)
    _jointed(worldbody, root)


def furnish_two_arms(root: ET.Element) -> None:
    """The objects that two arms handle together."""
    worldbody = root.find("worldbody")
    assert worldbody is not None  # noqa: S101 - as above
    pot = _free(worldbody, "pot", 0.35, 1.5e-3)
    rgba = (*PALETTE["pot"], 1)
    add(pot, "geom", name="pot", type="box", size=(0.06, 0.10, 0.03), rgba=rgba, **SOLID)
    for side, name in ((-1, "a"), (1, "b")):
        add(pot, "geom", type="box", size=(0.01, 0.03, 0.006), pos=(0, side * 0.125, 0), rgba=rgba, **SOLID)
        dark = (*PALETTE["handle"], 1)
        add(
            pot,
            "geom",
            name=f"pot_{name}",
            type="box",
            size=(0.008, 0.02, 0.03),
            pos=(0, side * 0.15, 0.02),
            rgba=dark,
            **SOLID,
        )
    bar = _free(worldbody, "bar", 0.10, 6e-4)
    add(bar, "geom", name="bar", type="box", size=(0.012, 0.15, 0.016), rgba=(*PALETTE["bar"], 1), **SOLID)


def _materials(asset: ET.Element) -> None:
    folder = texture_folder()
    add(
        asset,
        "texture",
        type="skybox",
        builtin="gradient",
        rgb1=(0.9, 0.9, 1.0),
        rgb2=(0.3, 0.4, 0.5),
        width=64,
        height=64,
    )
    for place, names in TEXTURES.items():
        repeat = {"table": (2, 2), "floor": (4, 4), "walls": (3, 3)}[place]
        for name in names:
            add(asset, "texture", type="2d", name=f"{place}-{name}", file=str(folder / f"{name}.png"))
            add(
                asset,
                "material",
                name=f"{place}-{name}",
                texture=f"{place}-{name}",
                texrepeat=repeat,
                texuniform="false",
                specular=0.1,
            )
        add(asset, "material", name=f"{place}-plain", rgba=(0.8, 0.8, 0.8, 1), specular=0.1)


def _room(worldbody: ET.Element) -> None:
    add(
        worldbody,
        "light",
        name="lamp",
        pos=(1, 1, 3),
        dir=(-0.3, -0.3, -1),
        directional="true",
        castshadow="false",
        specular=(0.2, 0.2, 0.2),
    )
    add(
        worldbody,
        "light",
        name="fill",
        pos=(-1, -1, 3),
        dir=(0.3, 0.3, -1),
        directional="true",
        castshadow="false",
        diffuse=(0.2, 0.2, 0.2),
        specular=(0, 0, 0),
    )
    for name in ("front", "side"):
        add(worldbody, "camera", name=name, pos=(0.9, 0, 1.5), fovy=45)
    add(
        worldbody,
        "geom",
        name="floor",
        type="box",
        size=(4, 4, 0.05),
        pos=(0, 0, -0.05),
        group="1",
        material="floor-plain",
    )
    for name, pos, size in (
        ("back", (-2.2, 0, 1.5), (0.02, 3, 1.5)),
        ("far", (3, 0, 1.5), (0.02, 3, 1.5)),
        ("left", (0, 2.5, 1.5), (3, 0.02, 1.5)),
        ("right", (0, -2.5, 1.5), (3, 0.02, 1.5)),
    ):
        add(
            worldbody,
            "geom",
            name=f"wall_{name}",
            type="box",
            size=size,
            pos=pos,
            material="walls-plain",
            **PICTURE_ONLY,
        )
    add(
        worldbody,
        "geom",
        name="table",
        type="box",
        size=TABLE_HALF,
        pos=(0.05, 0, TABLE_Z - TABLE_HALF[2]),
        material="table-plain",
        friction=FRICTION,
        condim="4",
        group="1",
    )
    for number, (x, y) in enumerate(((0.4, 0.4), (0.4, -0.4), (-0.3, 0.4), (-0.3, -0.4))):
        add(
            worldbody,
            "geom",
            name=f"leg{number}",
            type="cylinder",
            size=(0.025, 0.37),
            pos=(x, y, 0.38),
            rgba=(0.4, 0.4, 0.42, 1),
            **PICTURE_ONLY,
        )


def pedestal(root: ET.Element, name: str, place: tuple[float, float, float]) -> None:
    """A column under an arm's base."""
    worldbody = root.find("worldbody")
    assert worldbody is not None  # noqa: S101 - as above
    half = place[2] / 2
    add(
        worldbody,
        "geom",
        name=name,
        type="box",
        size=(0.1, 0.1, half),
        pos=(place[0], place[1], half - 0.002),
        rgba=(0.35, 0.36, 0.38, 1),
        **PICTURE_ONLY,
    )


def _free(worldbody: ET.Element, name: str, mass: float, inertia: float) -> ET.Element:
    body = add(worldbody, "body", name=name, pos=(0, 0, NOWHERE_Z))
    add(body, "joint", name=name, type="free", damping="0.0005")
    add(body, "inertial", pos=(0, 0, 0), mass=mass, diaginertia=(inertia,) * 3)
    return body


def _ring(worldbody: ET.Element) -> None:
    body = _free(worldbody, "ring", 0.05, 4e-5)
    rgba = (*PALETTE["ring"], 1)
    for number in range(8):
        angle = number * np.pi / 4
        pos = (0.029 * np.cos(angle), 0.029 * np.sin(angle), 0)
        add(
            body,
            "geom",
            name=f"ring{number}",
            type="box",
            size=(0.005, 0.0145, 0.01),
            pos=pos,
            euler=(0, 0, angle),
            rgba=rgba,
            **SOLID,
        )
    add(body, "geom", name="ring", type="box", size=(0.022, 0.009, 0.012), pos=(0.055, 0, 0.002), rgba=rgba, **SOLID)


def _containers(worldbody: ET.Element) -> None:
    rgba = (*PALETTE["bin"], 1)
    body = add(worldbody, "body", name="bin", pos=(0, 0, NOWHERE_Z))
    add(body, "geom", name="bin", type="box", size=(0.075, 0.075, 0.003), pos=(0, 0, 0.003), rgba=rgba, **SOLID)
    for number, (x, y) in enumerate(((1, 0), (-1, 0), (0, 1), (0, -1))):
        size = (0.004 if x else 0.075, 0.004 if y else 0.075, 0.02)
        add(
            body,
            "geom",
            name=f"bin{number}",
            type="box",
            size=size,
            pos=(0.075 * x, 0.075 * y, 0.02),
            rgba=rgba,
            **SOLID,
        )
    rgba = (*PALETTE["plate"], 1)
    body = add(worldbody, "body", name="plate", pos=(0, 0, NOWHERE_Z))
    add(body, "geom", name="plate", type="cylinder", size=(0.07, 0.004), pos=(0, 0, 0.004), rgba=rgba, **SOLID)
    rgba = (*PALETTE["bowl"], 1)
    body = add(worldbody, "body", name="bowl", pos=(0, 0, NOWHERE_Z))
    add(body, "geom", name="bowl", type="cylinder", size=(0.055, 0.003), pos=(0, 0, 0.003), rgba=rgba, **SOLID)
    for number in range(12):
        angle = number * np.pi / 6
        pos = (0.064 * np.cos(angle), 0.064 * np.sin(angle), 0.018)
        quat = _lean(angle)
        add(
            body,
            "geom",
            name=f"bowl{number}",
            type="box",
            size=(0.003, 0.018, 0.018),
            pos=pos,
            quat=quat,
            rgba=rgba,
            **SOLID,
        )


def _lean(angle: float) -> tuple[float, ...]:
    """A wall of the bowl at ``angle``, leaning outwards by 25 degrees; quaternion (w, x, y, z)."""
    tilt = np.deg2rad(25) / 2
    turn = (np.cos(angle / 2), 0.0, 0.0, np.sin(angle / 2))
    lean = (np.cos(tilt), 0.0, np.sin(tilt), 0.0)
    w1, _, _, z1 = turn
    w2, _, y2, _ = lean
    return (w1 * w2, -z1 * y2, w1 * y2, z1 * w2)


def _zones_and_peg(worldbody: ET.Element) -> None:
    for name in ("white_zone", "black_zone"):
        body = add(worldbody, "body", name=name, pos=(0, 0, NOWHERE_Z))
        add(
            body,
            "geom",
            name=name,
            type="box",
            size=(0.06, 0.06, 0.0006),
            pos=(0, 0, 0.0006),
            rgba=(*PALETTE[name], 1),
            **PICTURE_ONLY,
        )
    body = add(worldbody, "body", name="peg", pos=(0, 0, NOWHERE_Z))
    rgba = (*PALETTE["peg"], 1)
    add(
        body,
        "geom",
        name="peg",
        type="cylinder",
        size=(0.011, PEG_HEIGHT / 2),
        pos=(0, 0, PEG_HEIGHT / 2),
        rgba=rgba,
        **SOLID,
    )
    add(body, "geom", name="peg0", type="cylinder", size=(0.035, 0.002), pos=(0, 0, 0.002), rgba=rgba, **PICTURE_ONLY)


def _jointed(worldbody: ET.Element, root: ET.Element) -> None:
    contact = root.find("contact")
    if contact is None:
        contact = ET.SubElement(root, "contact")
    dark = (*PALETTE["handle"], 1)
    for name in JOINTED:
        rgba = (*PALETTE[name], 1)
        cabinet = add(worldbody, "body", name=name, pos=(0, 0, NOWHERE_Z))
        add(cabinet, "geom", name=name, type="box", size=(0.07, 0.085, 0.003), pos=(0, 0, 0.077), rgba=rgba, **SOLID)
        for number, side in enumerate((-1, 1)):
            add(
                cabinet,
                "geom",
                name=f"{name}{number}",
                type="box",
                size=(0.07, 0.003, 0.04),
                pos=(0, 0.082 * side, 0.04),
                rgba=rgba,
                **SOLID,
            )
        add(
            cabinet,
            "geom",
            name=f"{name}2",
            type="box",
            size=(0.003, 0.08, 0.037),
            pos=(0.066, 0, 0.037),
            rgba=rgba,
            **SOLID,
        )
        leaf = add(cabinet, "body", name=f"{name}_leaf", pos=(-0.07, 0, 0) if name == "drawer" else (-0.075, 0.08, 0))
        add(leaf, "inertial", pos=(0, 0, 0.04), mass=0.3, diaginertia=(1e-3,) * 3)
        limit = (0, JOINT_RANGE[name] + 0.01)
        front = tuple(min(1.0, c * 1.25) for c in PALETTE[name])
        if name == "drawer":
            add(leaf, "joint", name=name, type="slide", axis=(-1, 0, 0), range=limit, damping=3, frictionloss=0.4)
            add(
                leaf,
                "geom",
                name="drawer_front",
                type="box",
                size=(0.004, 0.078, 0.034),
                pos=(0, 0, 0.038),
                rgba=(*front, 1),
                **SOLID,
            )
            add(
                leaf,
                "geom",
                name="drawer_tray",
                type="box",
                size=(0.06, 0.072, 0.003),
                pos=(0.06, 0, 0.01),
                rgba=(*front, 1),
                **PICTURE_ONLY,
            )
            post = np.array([-0.045, 0.0])
        else:
            add(leaf, "joint", name=name, type="hinge", axis=(0, 0, -1), range=limit, damping=0.05, frictionloss=0.02)
            add(
                leaf,
                "geom",
                name="door_front",
                type="box",
                size=(0.004, 0.078, 0.034),
                pos=(0, -0.08, 0.038),
                rgba=(*front, 1),
                **SOLID,
            )
            post = np.array([-0.045, -0.135])
        add(
            leaf,
            "geom",
            name=f"{name}_stem",
            type="box",
            size=(0.02, 0.006, 0.006),
            pos=(post[0] + 0.022, post[1], 0.03),
            rgba=dark,
            **PICTURE_ONLY,
        )
        add(
            leaf,
            "geom",
            name=f"{name}_post",
            type="cylinder",
            size=(0.009, 0.05),
            pos=(*post, 0.07),
            rgba=dark,
            **SOLID,
        )
        add(leaf, "site", name=f"{name}_grip", pos=(*post, 0.095), size=(0.002,), rgba=(0, 0, 0, 0))
        add(contact, "exclude", body1=name, body2=f"{name}_leaf")


def mount(
    robot: Any, spec: ArmSpec, base_class: Any, gripper: Any, place: tuple[float, float, float], facing: float
) -> None:
    """Give a robosuite robot its gripper and its place, gravity compensated."""
    robot.add_base(base_class)
    robot.add_gripper(gripper)
    robot.set_base_xpos(np.array(place))
    robot.set_base_ori(np.array([0.0, 0.0, facing]))
    for body in robot.worldbody.iter("body"):
        body.set("gravcomp", "1")
        if spec.gripper == "UMIGripper" and str(body.get("name")).endswith("_eef"):
            # Its grasp point lies at the flange, looking backwards: put it between the finger tips.
            body.set("pos", UMI_GRASP_POINT)
            body.set("quat", "0.707107 0 0.707107 0")
    for geom in robot.worldbody.iter("geom"):
        if spec.robot == "Arx5" and str(geom.get("name")).endswith(("base_link_collision", "link1_collision")):
            # Their hulls overlap and hold the first joint fast: the arm could not move sideways.
            geom.set("contype", "0")
            geom.set("conaffinity", "0")
