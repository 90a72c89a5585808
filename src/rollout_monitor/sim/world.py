"""The physics and the pictures behind the cell: one robosuite environment, reset and dressed for every attempt."""

from __future__ import annotations

import atexit
import logging
import os
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy.spatial.transform import Rotation

from rollout_monitor.errors import RolloutMonitorError
from rollout_monitor.frames import RgbImage
from rollout_monitor.sim.experts import TICK_S
from rollout_monitor.sim.look import Look, look_at
from rollout_monitor.sim.tasks import COLOURS

FloatArray = npt.NDArray[np.float64]

JOINT_NAMES = (
    "shoulder_pan_joint",
    "shoulder_lift_joint",
    "elbow_joint",
    "wrist_1_joint",
    "wrist_2_joint",
    "wrist_3_joint",
    "finger_joint",
)
CAMERA_IDS = {"front": "frontview", "wrist": "robot0_eye_in_hand"}
MATERIALS = {"table": "table_ceramic", "floor": "floorplane", "walls": "walls_mat"}
NEAREST_CUBES_M = 0.10
"""Smallest distance between two cubes' centres at the start: leaves room for the open fingers."""


class World:
    """A robosuite environment with its own renderer, reusable for any number of attempts.

    Args:
        scene: ``Lift`` (one red cube) or ``Stack`` (a red and a green cube).
        height, width: picture size, pixels.

    Raises:
        RolloutMonitorError: robosuite is not installed.
    """

    def __init__(self, scene: str, height: int = 240, width: int = 320) -> None:
        os.environ.setdefault("MUJOCO_GL", "egl")
        os.environ.setdefault("PYOPENGL_PLATFORM", os.environ["MUJOCO_GL"])
        try:
            logging.getLogger("robosuite_logs").setLevel(logging.ERROR)  # it warns of every optional part
            import mujoco  # noqa: PLC0415 - heavy, optional
            import robosuite  # noqa: PLC0415
        except ImportError as error:
            raise RolloutMonitorError(
                f"the simulated cell needs the extra [sim] ({error}); run scripts/install_sim.sh"
            ) from error
        logging.getLogger("robosuite_logs").setLevel(logging.ERROR)
        self._mujoco = mujoco
        self.env = robosuite.make(
            scene,
            robots="UR5e",
            has_renderer=False,
            has_offscreen_renderer=False,
            use_camera_obs=False,
            use_object_obs=False,
            hard_reset=False,
            ignore_done=True,
            control_freq=round(1 / TICK_S),
            initialization_noise=None,
            seed=0,
        )
        self.env.reset()
        self.model = self.env.sim.model._model
        self.data = self.env.sim.data._data
        self.table_z = float(self.env.table_offset[2])
        self._find_robot()
        self._find_cubes(["cube"] if scene == "Lift" else ["cubeA", "cubeB"])
        self._init_renderer(height, width)
        self._materials = {key: self.model.mat(name).id for key, name in MATERIALS.items()}
        self._wrist_pos = self.model.cam_pos[self.model.camera(CAMERA_IDS["wrist"]).id].copy()

    def _find_robot(self) -> None:
        model = self.model
        prefixes = ["robot0_"] * 6 + ["gripper0_right_"]
        joints = [model.joint(prefix + name) for prefix, name in zip(prefixes, JOINT_NAMES, strict=True)]
        self.qpos_ids = np.array([joint.qposadr[0] for joint in joints])
        self.dof_ids = np.array([joint.dofadr[0] for joint in joints])
        self._site = self.env.robots[0].eef_site_id["right"]
        names = {model.geom(i).name: i for i in range(model.ngeom)}
        self.pads = [
            {i for name, i in names.items() if f"_{side}_fingertip_c" in name or f"_{side}_fingerpad_c" in name}
            for side in ("left", "right")
        ]
        # The hand's start frame, made exactly upright: yaw is measured against it.
        side = self.tool_rotation[:, 0] * np.array([1.0, 1.0, 0.0])
        side /= np.linalg.norm(side)
        down = np.array([0.0, 0.0, -1.0])
        self.upright = np.column_stack([side, np.cross(down, side), down])

    def _find_cubes(self, bodies: list[str]) -> None:
        model = self.model
        self.bodies = bodies
        self.geoms = {body: model.geom(f"{body}_g0").id for body in bodies}
        self.halves = {body: float(model.geom_size[self.geoms[body]][2]) for body in bodies}
        self._visuals = {body: model.geom(f"{body}_g0_vis").id for body in bodies}
        self._body_ids = {body: model.body(f"{body}_main").id for body in bodies}
        self._joints = {body: model.joint(f"{body}_joint0") for body in bodies}
        # The scene's own materials: the first cube is red, the second (if any) green.
        self._wood = {
            colour: int(model.geom_matid[self._visuals[body]]) for colour, body in zip(COLOURS, bodies, strict=False)
        }

    def _init_renderer(self, height: int, width: int) -> None:
        mujoco = self._mujoco
        self.model.vis.quality.offsamples = 0
        self._renderer = mujoco.Renderer(self.model, height, width)
        atexit.register(self._renderer.close)  # at interpreter exit its own clean-up comes too late and complains
        self._option = mujoco.MjvOption()
        self._option.geomgroup[0], self._option.geomgroup[1] = 0, 1  # visual meshes only
        # A software renderer runs three times faster without these.
        self._off = (mujoco.mjtRndFlag.mjRND_SHADOW, mujoco.mjtRndFlag.mjRND_REFLECTION)

    # --- state ------------------------------------------------------------------------------------------------

    @property
    def tool(self) -> FloatArray:
        """Grasp point between the finger tips, world frame, metres, shape (3,)."""
        return np.array(self.data.site_xpos[self._site])

    @property
    def tool_rotation(self) -> FloatArray:
        """Orientation of the hand, world frame, shape (3, 3)."""
        return np.array(self.data.site_xmat[self._site]).reshape(3, 3)

    def cube(self, body: str) -> FloatArray:
        """Centre of a cube, world frame, metres, shape (3,)."""
        return np.array(self.data.xpos[self._body_ids[body]])

    def cube_yaw(self, body: str) -> float:
        """Turn of a cube about the vertical, rad (meaningful while it lies flat)."""
        matrix = self.data.xmat[self._body_ids[body]].reshape(3, 3)
        return float(np.arctan2(matrix[1, 0], matrix[0, 0]))

    def cube_speed(self, body: str) -> float:
        """Linear speed of a cube, m/s."""
        at = self._joints[body].dofadr[0]
        return float(np.linalg.norm(self.data.qvel[at : at + 3]))

    def contacts(self) -> set[tuple[int, int]]:
        """Pairs of geoms in contact now, both ways round."""
        pairs = self.data.contact.geom[: self.data.ncon]
        return {(int(a), int(b)) for a, b in pairs} | {(int(b), int(a)) for a, b in pairs}

    def joint_state(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Positions (rad), velocities (rad/s) and actuator torques (N m) in the order of `JOINT_NAMES`."""
        data = self.data
        return data.qpos[self.qpos_ids], data.qvel[self.dof_ids], data.qfrc_actuator[self.dof_ids]

    # --- attempts ---------------------------------------------------------------------------------------------

    def set_scene(self, rng: np.random.Generator) -> dict[str, str]:
        """Reset, move the arm's start and the cubes a little, decide which body has which colour; `dress` comes next.

        Returns:
            The body of each colour.
        """
        self.env.reset()
        self.data.qpos[self.qpos_ids[:6]] += rng.normal(0, 0.03, 6)
        bodies = list(self.bodies)
        if len(bodies) > 1 and rng.random() < 0.5:
            bodies.reverse()  # the size of a cube must not give its colour away
        for body, (x, y) in zip(bodies, _spots(rng, len(bodies)), strict=True):
            at, yaw = self._joints[body].qposadr[0], rng.uniform(-0.6, 0.6)
            height = self.table_z + self.halves[body] + 0.001
            self.data.qpos[at : at + 7] = [x, y, height, np.cos(yaw / 2), 0, 0, np.sin(yaw / 2)]
        return dict(zip(COLOURS, bodies, strict=False))

    def dress(self, look: Look, body_of: dict[str, str]) -> None:
        """Set cameras, light and colours, then settle all poses. No value adds to the last one: order plays no part."""
        model = self.model
        front, wrist = (model.camera(CAMERA_IDS[name]).id for name in ("front", "wrist"))
        model.cam_pos[front] = look.camera
        model.cam_quat[front] = look_at(look.camera, look.aim)
        model.cam_fovy[front] = look.fovy
        model.cam_pos[wrist] = self._wrist_pos + look.wrist_shift
        model.light_pos[0] = look.light
        model.light_dir[0] = (look.aim - look.light) / np.linalg.norm(look.aim - look.light)
        model.light_diffuse[0] = look.diffuse
        model.vis.headlight.ambient[:] = look.ambient
        for colour, body in body_of.items():
            model.geom_matid[self._visuals[body]] = self._wood[colour]
        for key, material in {**self._materials, **self._wood}.items():
            model.mat_rgba[material, :3] = look.tints[key]
        self.env.sim.forward()  # camera poses follow only here

    def step(self, action: FloatArray, policy_step: bool) -> None:
        """Advance the physics by 2 ms under the environment's controller; a policy step hands it a new goal."""
        self.env.sim.step1()
        self.env._pre_action(action, policy_step)
        self.env.sim.step2()

    def render(self, camera: str) -> RgbImage:
        """Draw what ``front`` or ``wrist`` sees now: RGB, uint8, (height, width, 3)."""
        self._renderer.update_scene(self.data, camera=CAMERA_IDS[camera], scene_option=self._option)
        for flag in self._off:
            self._renderer.scene.flags[flag] = 0
        picture: RgbImage = self._renderer.render().copy()
        return picture


def _spots(rng: np.random.Generator, count: int) -> list[FloatArray]:
    """Places on the table for ``count`` cubes, far enough from each other; shape (2,) each, metres."""
    spots: list[FloatArray] = []
    while len(spots) < count:
        spot = rng.uniform((-0.12, -0.16), (0.08, 0.16))
        if all(np.linalg.norm(spot - other) >= NEAREST_CUBES_M for other in spots):
            spots.append(spot)
    return spots


@lru_cache(maxsize=4)
def shared_world(scene: str, height: int, width: int) -> World:
    """One world per scene and process: building one takes seconds, resetting it milliseconds."""
    return World(scene, height, width)


def check_picture(picture: RgbImage, camera: str) -> None:
    """Refuse an empty picture: off-screen rendering can fail without an error.

    Raises:
        RolloutMonitorError: the picture is black, white or flat.
    """
    mean, deviation = float(picture.mean()), float(picture.std())
    if not (8.0 < mean < 247.0 and deviation > 8.0):
        raise RolloutMonitorError(
            f"off-screen rendering gives an empty picture (camera {camera}: mean {mean:.1f}, deviation "
            f"{deviation:.1f}); install libegl1, libegl-mesa0 and libgl1-mesa-dri, or set MUJOCO_GL=osmesa"
        )


def rotation_error(wanted: FloatArray, actual: FloatArray) -> FloatArray:
    """Rotation vector in the world frame that turns ``actual`` into ``wanted``, rad, shape (3,)."""
    return np.asarray(Rotation.from_matrix(wanted @ actual.T).as_rotvec())


def about_vertical(angle: float) -> FloatArray:
    """Rotation matrix about the world's vertical, shape (3, 3)."""
    return np.asarray(Rotation.from_euler("z", angle).as_matrix())
