"""Physics and pictures of the table: one compiled MuJoCo model per set of arms, laid out and dressed for every take."""

from __future__ import annotations

import atexit
import importlib
import logging
import os
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.spatial.transform import Rotation

from rollout_monitor.errors import RolloutMonitorError
from rollout_monitor.frames import RgbImage
from rollout_monitor.sim.tabletop import scene
from rollout_monitor.sim.tabletop.arms import Arm, ArmSpec, get_arm
from rollout_monitor.sim.tabletop.catalogue import (
    CUBES,
    FIXTURE_INDEX,
    FIXTURES,
    JOINTED,
    OBJECT_INDEX,
    OBJECTS,
    POT_GRIP_M,
)
from rollout_monitor.sim.tabletop.goals import SceneFacts, States
from rollout_monitor.sim.tabletop.looks import Look, look_at
from rollout_monitor.sim.tabletop.meshes import thin_out
from rollout_monitor.sim.tabletop.skins import Skin

FloatArray = npt.NDArray[np.float64]

STEP_S = 0.002
STEPS_PER_SAMPLE = 5
"""Physics steps between joint samples: 100 Hz."""

VIEWS = ("front", "wrist")
TWO_ARMS = "two_ur5e"
TWO_ARM_BASE_M = 0.62
EMPTY_DEVIATION = 2.0
"""Brightness of a real picture varies by more, even where the wrist camera looks at the bare table."""


@dataclass(frozen=True)
class Layout:
    """Where everything lies at the start of a take.

    Attributes:
        objects: per present object x, y (metres from the middle of the table) and yaw (rad).
        sizes: per present cube its half edge, metres.
        fixtures: per present fixture x, y and yaw.
        joints: opening of the jointed fixtures at the start.
    """

    objects: dict[str, tuple[float, float, float]]
    sizes: dict[str, float]
    fixtures: dict[str, tuple[float, float, float]]
    joints: dict[str, float]


class TableWorld:
    """The table with its arms, reusable for any number of takes.

    Args:
        arms: a name of `ARMS`, or `TWO_ARMS`.
        size: picture (height, width), pixels.

    Raises:
        RolloutMonitorError: robosuite is not installed.
    """

    def __init__(self, arms: str, size: tuple[int, int] = (224, 224)) -> None:
        os.environ.setdefault("MUJOCO_GL", "egl")
        os.environ.setdefault("PYOPENGL_PLATFORM", os.environ["MUJOCO_GL"])
        os.environ.setdefault("LP_NUM_THREADS", "1")  # the software renderer: one process, one core
        logging.getLogger("robosuite_logs").setLevel(logging.ERROR)  # it warns of every optional part
        try:
            import mujoco  # noqa: PLC0415 - heavy, optional
            import robosuite  # noqa: F401, PLC0415
        except ImportError as error:
            raise RolloutMonitorError(
                f"the simulated table needs the extra [sim] ({error}); run scripts/install_sim.sh"
            ) from error
        self.mujoco = mujoco
        self.name = arms
        self.spec = get_arm("ur5e" if arms == TWO_ARMS else arms)
        root, robots, facings = _document(arms, self.spec)
        self.model = mujoco.MjModel.from_xml_string(thin_out(mujoco, root))
        self.model.opt.timestep = STEP_S
        self.model.opt.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
        self.data = mujoco.MjData(self.model)
        self._find_things()
        along, height = self.spec.home
        home = np.array([along if arms != TWO_ARMS else 0.0, 0.0, scene.TABLE_Z + height])
        self.arms = [
            self._arm(robot, home, facing, len(robots) > 1) for robot, facing in zip(robots, facings, strict=True)
        ]
        self._wrist = next(i for i in range(self.model.ncam) if self.model.camera(i).name.endswith("eye_in_hand"))
        self._wrist_pose = (self.model.cam_pos[self._wrist].copy(), self.model.cam_quat[self._wrist].copy())
        self._size = size
        self._renderer: Any = None
        self.facts: SceneFacts | None = None

    def _arm(self, robot: Any, home: FloatArray, facing: float, two: bool) -> Arm:
        place = home.copy()
        if two:
            place[1] = -0.15 if facing > 0 else 0.15
        return Arm(self.mujoco, self.model, self.data, robot, home=place, facing=facing, front=self.spec.front)

    def _find_things(self) -> None:
        model = self.model
        names = {model.body(i).name: i for i in range(model.nbody)}
        self.bodies = {name: names[name] for name in OBJECTS if name in names}
        self._fixtures = {name: names[name] for name in FIXTURES}
        self._joints = {name: model.joint(name) for name in (*self.bodies, *JOINTED)}
        owners = {body: name for name, body in self.bodies.items()}
        self.owner = np.array([OBJECT_INDEX.get(owners.get(int(b), ""), -1) for b in model.geom_bodyid])
        self._geoms = {name: np.flatnonzero(model.geom_bodyid == body) for name, body in self.bodies.items()}
        self._grips = [model.site(f"{name}_grip").id for name in JOINTED]
        self._masks = {
            name: (model.geom_contype[g].copy(), model.geom_conaffinity[g].copy()) for name, g in self._geoms.items()
        }
        leaves = {name: names[f"{name}_leaf"] for name in JOINTED}
        self._fixture_geoms = {
            name: np.flatnonzero((model.geom_bodyid == body) | (model.geom_bodyid == leaves.get(name, -1)))
            for name, body in self._fixtures.items()
        }
        self._mass = model.body_mass.copy()
        self._materials = {model.mat(i).name: i for i in range(model.nmat)}

    # --- laying out ---------------------------------------------------------------------------------------------

    def lay_out(self, layout: Layout) -> SceneFacts:
        """Put the table in order: objects, fixtures, arms at rest; returns what stays the same."""
        model, data = self.model, self.data
        self.mujoco.mj_resetData(model, data)
        half = np.full((len(OBJECTS), 3), np.nan)
        for name in self.bodies:
            half[OBJECT_INDEX[name]] = self._size_object(name, layout)
            self._place_object(name, layout, half[OBJECT_INDEX[name]][2])
        fixtures = np.full((len(FIXTURES), 3), np.nan)
        for name, body in self._fixtures.items():
            x, y, yaw = layout.fixtures.get(name, (0.0, 0.5 * FIXTURE_INDEX[name], 0.0))
            there = name in layout.fixtures
            model.body_pos[body] = (x, y, scene.TABLE_Z if there else scene.NOWHERE_Z - 1.0)
            model.body_quat[body] = (np.cos(yaw / 2), 0, 0, np.sin(yaw / 2))
            if there:
                fixtures[FIXTURE_INDEX[name]] = model.body_pos[body]
            if name in JOINTED:
                data.qpos[self._joints[name].qposadr[0]] = layout.joints.get(name, 0.0)
        self.mujoco.mj_setConst(model, self.mujoco.MjData(model))
        for arm in self.arms:
            arm.reset(arm.rest)
        self.mujoco.mj_forward(model, data)
        present = frozenset(layout.objects) | frozenset(layout.fixtures)
        self.facts = SceneFacts(present, half, fixtures, scene.TABLE_Z)
        return self.facts

    def _size_object(self, name: str, layout: Layout) -> tuple[float, float, float]:
        model = self.model
        if name not in layout.objects:
            return (np.nan,) * 3
        if name not in CUBES:
            return {"can": (0.024, 0.024, 0.04), "ring": (0.03, 0.03, 0.01), "pot": (0.06, 0.1, 0.03)}.get(
                name, (0.012, 0.15, 0.016)
            )
        edge = layout.sizes[name]
        geom, body = int(self._geoms[name][0]), self.bodies[name]
        model.geom_type[geom] = self.mujoco.mjtGeom.mjGEOM_BOX
        model.geom_size[geom] = edge
        model.geom_rbound[geom] = edge * np.sqrt(3.0)
        model.geom_aabb[geom, 3:] = edge
        mass = scene.DENSITY * (2 * edge) ** 3
        model.body_mass[body] = mass
        model.body_inertia[body] = mass * (2 * edge) ** 2 / 6.0
        return (edge,) * 3

    def _place_object(self, name: str, layout: Layout, half_z: float) -> None:
        model, data = self.model, self.data
        at, there = self._joints[name].qposadr[0], name in layout.objects
        x, y, yaw = layout.objects.get(name, (0.5 * OBJECT_INDEX[name], 2.0, 0.0))
        z = scene.TABLE_Z + half_z + 0.0005 if there else scene.NOWHERE_Z
        data.qpos[at : at + 7] = (x, y, z, np.cos(yaw / 2), 0, 0, np.sin(yaw / 2))
        # What is absent floats below the floor and touches nothing.
        model.body_gravcomp[self.bodies[name]] = 0.0 if there else 1.0
        kinds, partners = self._masks[name]
        model.geom_contype[self._geoms[name]] = kinds if there else 0
        model.geom_conaffinity[self._geoms[name]] = partners if there else 0
        self.set_friction(name, 1.0)

    def set_friction(self, name: str, sliding: float) -> None:
        """Make an object slippery (or not) against whatever touches it."""
        for geom in self._geoms[name]:
            self.model.geom_priority[geom] = 0 if sliding >= 1.0 else 1
            self.model.geom_friction[geom, 0] = sliding

    def push(self, name: str, velocity: tuple[float, float]) -> None:
        """Give an object a horizontal velocity, m/s, as a hand from outside would."""
        at = self._joints[name].dofadr[0]
        self.data.qvel[at : at + 2] = velocity

    def slow(self, name: str) -> None:
        """Stop an object's fall for a moment: done at every joint sample, a slippery one slides at about 5 cm/s."""
        self.data.qvel[self._joints[name].dofadr[0] + 2] = 0.0

    def advance(self) -> None:
        """One joint sample's worth of physics: 10 ms."""
        for arm in self.arms:
            arm.send(0.0)
        self.mujoco.mj_step(self.model, self.data, STEPS_PER_SAMPLE)

    # --- state --------------------------------------------------------------------------------------------------

    def place(self, name: str) -> FloatArray:
        """Centre of an object, metres, shape (3,)."""
        return np.array(self.data.xpos[self.bodies[name]])

    def yaw(self, name: str) -> float:
        """Turn of an object about the vertical, rad."""
        matrix = self.data.xmat[self.bodies[name]].reshape(3, 3)
        return float(np.arctan2(matrix[1, 0], matrix[0, 0]))

    def grip_of(self, fixture: str) -> FloatArray:
        """Where a jointed fixture is gripped, metres, shape (3,)."""
        return np.array(self.data.site_xpos[self._grips[JOINTED.index(fixture)]])

    def opening(self, fixture: str) -> float:
        """How far a jointed fixture is open, m or rad."""
        return float(self.data.qpos[self._joints[fixture].qposadr[0]])

    def ends(self, name: str, reach: float) -> FloatArray:
        """The two grips of a long object, that of arm 0 first; shape (2, 3)."""
        matrix = self.data.xmat[self.bodies[name]].reshape(3, 3)
        raised = 0.02 if name == "pot" else 0.0
        return np.array([self.place(name) + matrix @ np.array([0, side * reach, raised]) for side in (-1.0, 1.0)])

    def contacts(self) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.bool_], set[int]]:
        """Arms that grip each object (bits), contacts between objects, and objects touched by an arm's hand."""
        held = np.zeros(len(OBJECTS), dtype=np.int8)
        touching = np.zeros((len(OBJECTS), len(OBJECTS)), dtype=bool)
        pairs = self.data.contact.geom[: self.data.ncon]
        one, two = self.owner[pairs[:, 0]], self.owner[pairs[:, 1]]
        both = (one >= 0) & (two >= 0)
        touching[one[both], two[both]] = touching[two[both], one[both]] = True
        touched: set[int] = set()
        for number, arm in enumerate(self.arms):
            sides = []
            for pads in arm.pads:
                hit = {int(b) for (g, _), b in zip(pairs, two, strict=True) if int(g) in pads and b >= 0}
                hit |= {int(a) for (_, g), a in zip(pairs, one, strict=True) if int(g) in pads and a >= 0}
                sides.append(hit)
            touched |= sides[0] | sides[1]
            for what in sides[0] & sides[1]:
                held[what] |= 1 << number
        return held, touching, touched

    def state(self, held: npt.NDArray[np.int8], touching: npt.NDArray[np.bool_]) -> States:
        """The privileged state now, one row."""
        data = self.data
        places, speeds = np.full((len(OBJECTS), 3), np.nan), np.full(len(OBJECTS), np.nan)
        level = np.full(len(OBJECTS), np.nan)
        assert self.facts is not None  # noqa: S101 - lay_out comes first
        for name, body in self.bodies.items():
            if name in self.facts.present:
                index, dof = OBJECT_INDEX[name], self._joints[name].dofadr[0]
                places[index] = data.xpos[body]
                speeds[index] = np.linalg.norm(data.qvel[dof : dof + 3])
                level[index] = data.xmat[body].reshape(3, 3)[2, 2]
        ends = self.ends("pot", POT_GRIP_M) if "pot" in self.facts.present else np.full((2, 3), np.nan)
        return States(
            tools=np.array([[arm.tool for arm in self.arms]]),
            objects=places[None],
            speeds=speeds[None],
            held=held[None],
            touching=touching[None],
            joints=np.array([[self.opening(name) for name in JOINTED]]),
            grips=np.array([[self.grip_of(name) for name in JOINTED]]),
            level=level[None],
            ends=ends[None],
        )

    # --- pictures -----------------------------------------------------------------------------------------------

    def dress(self, look: Look) -> None:
        """Set cameras, light and colours."""
        model = self.model
        middle = np.array([0.0, 0.0, scene.TABLE_Z])
        front = model.camera("front").id
        model.cam_pos[front] = look.camera + middle
        model.cam_quat[front] = look_at(look.camera, look.aim)
        model.cam_fovy[front] = look.fovy
        pos, quat = self._wrist_pose
        turned = Rotation.from_quat(quat[[1, 2, 3, 0]]) * Rotation.from_rotvec(look.wrist_turn)
        model.cam_pos[self._wrist] = pos + look.wrist_shift
        model.cam_quat[self._wrist] = turned.as_quat(canonical=True)[[3, 0, 1, 2]]
        model.cam_fovy[self._wrist] = look.wrist_fovy
        lamp = model.light("lamp").id
        model.light_dir[lamp] = look.light
        model.light_pos[lamp] = middle - 2.5 * look.light
        model.light_diffuse[lamp] = look.diffuse
        model.light_castshadow[lamp] = look.shadows
        self._shadows = look.shadows
        model.vis.headlight.ambient[:] = look.ambient
        model.vis.headlight.diffuse[:] = 0.15
        self._paint(look)
        self.mujoco.mj_kinematics(model, self.data)
        self.mujoco.mj_camlight(model, self.data)  # camera poses follow only here

    def _paint(self, look: Look) -> None:
        model = self.model
        for geom in range(model.ngeom):
            name = model.geom(geom).name
            place = (
                "table"
                if name == "table"
                else "floor"
                if name == "floor"
                else "walls"
                if name.startswith("wall_")
                else ""
            )
            if place:
                material = self._materials[look.surfaces[place]]
                model.geom_matid[geom] = material
                model.mat_rgba[material, :3] = look.tints[place]
        handles = ("_stem", "_post", "pot_a", "pot_b")
        for name, geoms in {**self._geoms, **self._fixture_geoms}.items():
            for geom in geoms:
                label = model.geom(geom).name
                key = "handle" if label.endswith(handles) else name
                lighter = 1.25 if label.endswith(("_front", "_tray")) else 1.0
                model.geom_rgba[geom, :3] = np.minimum(look.tints[key] * lighter, 1.0)

    def render(self, view: str) -> RgbImage:
        """Draw a view now: RGB, uint8, (height, width, 3)."""
        mujoco = self.mujoco
        if self._renderer is None:
            self.model.vis.quality.offsamples = 0
            self._renderer = mujoco.Renderer(self.model, *self._size)
            atexit.register(self._renderer.close)  # at interpreter exit its own clean-up comes too late
            self._option = mujoco.MjvOption()
            self._option.geomgroup[:] = 0
            self._option.geomgroup[1] = 1  # visual shapes only
            self._option.sitegroup[:] = 0
        camera = self._wrist if view == "wrist" else self.model.camera(view).id
        self._renderer.update_scene(self.data, camera=camera, scene_option=self._option)
        flags = self._renderer.scene.flags
        flags[mujoco.mjtRndFlag.mjRND_SHADOW] = self._shadows
        flags[mujoco.mjtRndFlag.mjRND_REFLECTION] = 0
        flags[mujoco.mjtRndFlag.mjRND_SKYBOX] = 0
        picture: RgbImage = self._renderer.render().copy()
        return picture

    def camera_pose(self, view: str) -> tuple[FloatArray, FloatArray, float]:
        """Where a camera is now (3,), its axes right, up, back as columns (3, 3), and the tangent of half its view."""
        camera = self._wrist if view == "wrist" else self.model.camera(view).id
        turn = self.data.cam_xmat[camera].reshape(3, 3)
        half = float(np.tan(np.deg2rad(self.model.cam_fovy[camera]) / 2.0))
        return self.data.cam_xpos[camera].copy(), turn.copy(), half

    def project(self, view: str, points: FloatArray) -> FloatArray:
        """Where points of the world lie in a view now, see `files.project`: (k, 3) to (k, 3)."""
        place, turn, half = self.camera_pose(view)
        seen = (points - place) @ turn  # x right, y up, looking along -z
        with np.errstate(divide="ignore", invalid="ignore"):
            flat = seen[:, :2] / (-seen[:, 2:] * half) * np.array([1.0, -1.0])
        inside = (seen[:, 2] < 0) & (np.abs(flat) < 1.0).all(axis=1)
        return np.column_stack([np.where(inside[:, None], flat, 0.0), inside])

    def put(self, qpos: FloatArray, name: str, place: FloatArray, yaw: float) -> None:
        """Put an upright object somewhere in a stored pose, which is changed in place."""
        at = self._joints[name].qposadr[0]
        qpos[at : at + 7] = (*place, np.cos(yaw / 2), 0, 0, np.sin(yaw / 2))

    def stand(self, fixtures: FloatArray) -> None:
        """Put the fixtures that are there at other places, (fixtures, 3), for pictures only: `show` comes next."""
        for name, body in self._fixtures.items():
            if np.isfinite(fixtures[FIXTURE_INDEX[name]]).all():
                self.model.body_pos[body] = fixtures[FIXTURE_INDEX[name]]

    def reskin(self, name: str, skin: Skin) -> None:
        """Give a cube or a fixture another look for pictures, after `dress`; `lay_out` and `dress` take it away."""
        model = self.model
        if skin.shape:
            geom = int(self._geoms[name][0])
            model.geom_type[geom] = getattr(self.mujoco.mjtGeom, f"mjGEOM_{skin.shape.upper()}")
            model.geom_size[geom] = np.array(skin.size) * model.geom_size[geom][0]
        for geom in self._geoms[name] if name in self._geoms else self._fixture_geoms[name]:
            model.geom_rgba[geom, :3] = skin.colour

    def show(self, qpos: FloatArray) -> None:
        """Take up a stored pose, for pictures only."""
        self.data.qpos[:] = qpos
        self.mujoco.mj_kinematics(self.model, self.data)
        self.mujoco.mj_camlight(self.model, self.data)


def _document(arms: str, spec: ArmSpec) -> tuple[ET.Element, list[Any], list[float]]:
    """The whole scene as MJCF with its robosuite robots and the directions they look in."""
    from robosuite.models.bases import NullBase  # noqa: PLC0415 - heavy, optional
    from robosuite.models.grippers import gripper_factory  # noqa: PLC0415
    from robosuite.models.robots.robot_model import REGISTERED_ROBOTS  # noqa: PLC0415
    from robosuite.models.world import MujocoWorldBase  # noqa: PLC0415

    if spec.robot == "Arx5":
        try:
            importlib.import_module("robosuite_models")  # registers the arm
        except ImportError as error:
            raise RolloutMonitorError(
                f"the arm ARX5 needs robosuite_models ({error}); run scripts/install_sim.sh"
            ) from error
    facings = [np.pi / 2, -np.pi / 2] if arms == TWO_ARMS else [0.0]
    document, robots = MujocoWorldBase(), []
    scene.furnish(document.root)
    for number, facing in enumerate(facings):
        away = TWO_ARM_BASE_M if arms == TWO_ARMS else spec.base
        place = (-away * np.cos(facing), -away * np.sin(facing), scene.TABLE_Z + spec.height)
        robot = REGISTERED_ROBOTS[spec.robot](idn=number)
        gripper = gripper_factory(spec.gripper, idn=f"{number}_right")
        scene.mount(robot, spec, NullBase(idn=number), gripper, place, facing)
        document.merge(robot)
        scene.pedestal(document.root, f"pedestal{number}", place)
        robots.append(robot)
    if arms == TWO_ARMS:
        scene.furnish_two_arms(document.root)
    return document.root, robots, facings


@lru_cache(maxsize=8)
def shared_world(arms: str, size: tuple[int, int]) -> TableWorld:
    """One world per set of arms and process: building one takes seconds, laying it out milliseconds."""
    return TableWorld(arms, size)


def check_picture(picture: RgbImage, view: str) -> None:
    """Refuse an empty picture: off-screen rendering can fail without an error.

    Raises:
        RolloutMonitorError: the picture has one colour only.
    """
    if float(picture.std()) < EMPTY_DEVIATION:
        raise RolloutMonitorError(
            f"off-screen rendering gives an empty picture (camera {view}: brightness {float(picture.mean()):.0f} "
            "everywhere); install libegl1, libegl-mesa0 and libgl1-mesa-dri, or set MUJOCO_GL=osmesa"
        )
