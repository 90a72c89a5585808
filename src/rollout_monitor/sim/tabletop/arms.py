"""The arms: robosuite's models on position servos, steered by inverse kinematics from a wanted hand pose.

Instead of robosuite's torque controllers, which cost a Python call every 2 ms, each joint gets MuJoCo's own position
servo with gains scaled by the joint's inertia, gravity compensated: one control law for every arm.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rollout_monitor.errors import InputError
from rollout_monitor.sim.tabletop.rotations import about_vertical, rotation_vector

FloatArray = npt.NDArray[np.float64]

SERVO_RATE = 28.0
"""Natural frequency of the joint servos, rad/s, critically damped."""

DAMPING = 0.03
POSTURE_GAIN = 0.6
LEAD_RAD = 0.25
"""How far the wanted joint angle may run ahead of the true one: what the arm pushes with when it is held up."""

GRIPPER_TIME_S = 0.35
"""From open to closed."""


@dataclass(frozen=True)
class ArmSpec:
    """One kind of arm.

    Attributes:
        robot: robosuite's name.
        gripper: robosuite's name of its gripper.
        base: distance of its base behind the middle of the table, metres.
        height: height of its base above the table top, metres.
        x: where it works, range along its view, metres from the middle of the table.
        y: where it works, half width, metres.
        front: angles from which the inverse kinematics starts, rad.
        home: where the hand rests: distance from the middle of the table along the view, height above the table.
    """

    robot: str
    gripper: str
    base: float
    height: float
    x: tuple[float, float]
    y: float
    front: tuple[float, ...]
    home: tuple[float, float] = (-0.12, 0.22)


ARMS: dict[str, ArmSpec] = {
    "ur5e": ArmSpec("UR5e", "Robotiq85Gripper", 0.56, 0.0, (-0.17, 0.15), 0.25, (-0.2, -1.7, 2.2, -2.1, -1.57, -0.2)),
    "panda": ArmSpec("Panda", "PandaGripper", 0.55, 0.0, (-0.17, 0.15), 0.25, (0, 0.2, 0, -2.4, 0, 2.6, 0.78)),
    "iiwa": ArmSpec("IIWA", "Robotiq85Gripper", 0.56, 0.0, (-0.15, 0.13), 0.23, (0, 0.65, 0, -1.6, 0, 0.9, 0)),
    "kinova3": ArmSpec("Kinova3", "Robotiq85Gripper", 0.56, 0.0, (-0.15, 0.13), 0.23, (0, 0.6, 0, 1.7, 0, 0.9, -1.57)),
    "sawyer": ArmSpec("Sawyer", "RethinkGripper", 0.62, 0.0, (-0.15, 0.15), 0.25, (0, -1.0, 0, 2.0, 0, 0.57, -1.57)),
    "arx5": ArmSpec("Arx5", "UMIGripper", 0.42, 0.1, (-0.16, 0.04), 0.17, (0, 1.6, 1.4, -1.35, 0, 0), (-0.10, 0.17)),
}


_UR5E = [f"{part}_joint" for part in ("shoulder_pan", "shoulder_lift", "elbow", "wrist_1", "wrist_2", "wrist_3")]
JOINT_ORDERS: dict[str, list[str]] = {
    "ur5e": [*_UR5E, "finger_joint?"],
    "panda": [*(f"joint{n}" for n in range(1, 8)), "finger_joint1?"],
    "iiwa": [*(f"joint_{n}" for n in range(1, 8)), "finger_joint?"],
    "sawyer": [*(f"right_j{n}" for n in range(7)), "l_finger_joint?"],
    "two_ur5e": [
        *(f"robot0_{joint}" for joint in _UR5E),
        "gripper0_right_finger_joint?",
        *(f"robot1_{joint}" for joint in _UR5E),
        "gripper1_right_finger_joint?",
    ],
}
"""Joint names of a take in their order, as `takes.joint_names` has them; ``?`` marks those that may be missing."""


def get_arm(name: str) -> ArmSpec:
    """Look an arm up.

    Raises:
        InputError: no such arm; the message lists the known ones.
    """
    if name not in ARMS:
        raise InputError(f"unknown arm {name!r}; known arms: {', '.join(ARMS)}")
    return ARMS[name]


class Arm:
    """One arm in a compiled model: knows its joints, moves its hand.

    Args:
        mujoco: the module.
        model, data: the compiled scene.
        robot: robosuite's robot model with its gripper.
        home: grasp point at rest, world frame, metres, shape (3,).
        facing: turn of the arm's view about the vertical against +x, rad.
        front: start angles of the inverse kinematics.
    """

    def __init__(
        self,
        mujoco: Any,
        model: Any,
        data: Any,
        robot: Any,
        *,
        home: FloatArray,
        facing: float,
        front: tuple[float, ...],
    ) -> None:
        self._mujoco, self._model, self._data = mujoco, model, data
        gripper = next(iter(robot.grippers.values()))
        joints = [model.joint(name) for name in robot.joints]
        self.joint_names = [joint.name for joint in joints]
        self.qpos = np.array([joint.qposadr[0] for joint in joints])
        self.dofs = np.array([joint.dofadr[0] for joint in joints])
        self.limits = np.array([joint.range if joint.limited[0] else (-np.inf, np.inf) for joint in joints])
        self._acts = np.array([model.actuator(name).id for name in robot.actuators])
        self._find_gripper(gripper)
        self.site = model.site(gripper.important_sites["grip_site"]).id
        self._jacobian = (np.zeros((3, model.nv)), np.zeros((3, model.nv)))
        self.home = home
        self._facing = facing
        data.qpos[self.qpos] = front
        mujoco.mj_forward(model, data)
        self.upright = self._upright()
        self.rest = self._solve(np.array(front, dtype=np.float64))
        self._tune_servos()
        self.wanted = self.rest.copy()
        self.grip = 0.0

    def _find_gripper(self, gripper: Any) -> None:
        model = self._model
        self._fingers = np.array([model.actuator(name).id for name in gripper.actuators])
        low, high = model.actuator_ctrlrange[self._fingers].T
        self._middle, self._span = 0.5 * (low + high), 0.5 * (high - low)
        action = np.zeros(gripper.dof) + 1.0
        gripper.current_action = np.zeros(len(self._fingers))
        try:
            self._sense = np.sign(np.atleast_1d(gripper.format_action(action)))
        except (AssertionError, AttributeError):
            self._sense = np.ones(len(self._fingers))
        self.finger_joints = [model.joint(name) for name in gripper.joints]
        self.finger = int(self.finger_joints[0].qposadr[0])
        self.finger_dof = int(self.finger_joints[0].dofadr[0])
        self.finger_rest = np.array(gripper.init_qpos if gripper.init_qpos is not None else [], dtype=np.float64)
        geoms = gripper.important_geoms
        self.pads = [
            {model.geom(name).id for part in ("finger", "fingerpad") for name in geoms.get(f"{side}_{part}", [])}
            for side in ("left", "right")
        ]

    def _upright(self) -> FloatArray:
        """Hand pointing down, fingers closing across the arm's view; found from where the finger pads are."""
        data = self._data
        matrix = data.site_xmat[self.site].reshape(3, 3)
        centres = [np.mean([data.geom_xpos[g] for g in pads], axis=0) for pads in self.pads]
        across = matrix.T @ (centres[0] - centres[1])
        across[2] = 0.0  # every gripper's site looks along its own z
        across /= np.linalg.norm(across)
        local = np.column_stack([across, np.cross([0.0, 0.0, 1.0], across), [0.0, 0.0, 1.0]])
        best = None
        for sign in (1.0, -1.0):
            side = sign * np.array([-np.sin(self._facing), np.cos(self._facing), 0.0])
            down = np.array([0.0, 0.0, -1.0])
            wanted = np.column_stack([side, np.cross(down, side), down]) @ local.T
            turn = float(np.linalg.norm(rotation_vector(wanted @ matrix.T)))
            if best is None or turn < best[0]:
                best = (turn, wanted)
        assert best is not None  # noqa: S101 - two candidates
        return np.asarray(best[1])

    def _tune_servos(self) -> None:
        model, data, mujoco = self._model, self._data, self._mujoco
        data.qpos[self.qpos] = self.rest
        mujoco.mj_forward(model, data)
        full = np.zeros((model.nv, model.nv))
        mujoco.mj_fullM(model, full, data.qM)
        inertia = np.maximum(np.diag(full)[self.dofs], 0.02)
        for act, mass in zip(self._acts, inertia, strict=True):
            gain, damp = mass * SERVO_RATE**2, 2.0 * mass * SERVO_RATE
            model.actuator_gainprm[act, :3] = (gain, 0.0, 0.0)
            model.actuator_biastype[act] = mujoco.mjtBias.mjBIAS_AFFINE
            model.actuator_biasprm[act, :3] = (0.0, -gain, -damp)
            if model.actuator_ctrllimited[act]:
                model.actuator_forcerange[act] = model.actuator_ctrlrange[act]
                model.actuator_forcelimited[act] = 1
                model.actuator_ctrllimited[act] = 0

    # --- kinematics ---------------------------------------------------------------------------------------------

    @property
    def tool(self) -> FloatArray:
        """Grasp point between the finger tips, world frame, metres, shape (3,)."""
        return np.array(self._data.site_xpos[self.site])

    @property
    def rotation(self) -> FloatArray:
        """Orientation of the hand, shape (3, 3)."""
        return np.array(self._data.site_xmat[self.site]).reshape(3, 3)

    @property
    def yaw(self) -> float:
        """Turn of the hand about the vertical against upright, rad."""
        matrix = self.rotation @ self.upright.T
        return float(np.arctan2(matrix[1, 0], matrix[0, 0]))

    def _step(self, error: FloatArray, posture: float) -> FloatArray:
        """Joint change for a change of the hand's pose (6,), damped least squares, drawn to the rest posture."""
        position, turning = self._jacobian
        self._mujoco.mj_jacSite(self._model, self._data, position, turning, self.site)
        jacobian = np.vstack([position[:, self.dofs], turning[:, self.dofs]])
        inverse = jacobian.T @ np.linalg.inv(jacobian @ jacobian.T + DAMPING**2 * np.eye(6))
        change = inverse @ error
        if len(self.dofs) > 6:
            away = self.rest - self._data.qpos[self.qpos]
            change = change + posture * (np.eye(len(self.dofs)) - inverse @ jacobian) @ away
        return np.asarray(change)

    def _solve(self, start: FloatArray) -> FloatArray:
        """Joint angles that bring the hand home, upright."""
        self.rest = start
        return self.solve(self.home, 0.0, start)

    def solve(self, place: FloatArray, yaw: float, start: FloatArray) -> FloatArray:
        """Joint angles for a pose of the upright hand by iteration; changes the data's joint positions.

        Raises:
            InputError: out of reach.
        """
        data, mujoco = self._data, self._mujoco
        wanted = about_vertical(yaw) @ self.upright
        rng = np.random.default_rng(0)
        angles = start.copy()
        for trial in range(30):
            for _ in range(150):
                data.qpos[self.qpos] = angles
                mujoco.mj_kinematics(self._model, data)
                mujoco.mj_comPos(self._model, data)
                error = np.concatenate([place - self.tool, rotation_vector(wanted @ self.rotation.T)])
                if float(np.linalg.norm(error[:3])) < 1e-3 and float(np.linalg.norm(error[3:])) < 1e-2:
                    return angles
                angles = angles + np.clip(self._step(np.clip(error, -0.3, 0.3), 0.0), -0.3, 0.3)
                angles = np.clip(angles, self.limits[:, 0] + 0.02, self.limits[:, 1] - 0.02)
            angles = start + rng.normal(0, 0.1 + 0.03 * trial, len(start))
        raise InputError(f"the hand cannot reach {np.round(place, 3)}")

    # --- motion -------------------------------------------------------------------------------------------------

    def reset(self, angles: FloatArray) -> None:
        """Put the arm still at these joint angles, open."""
        self._data.qpos[self.qpos] = angles
        for joint, angle in zip(self.finger_joints, self.finger_rest, strict=False):
            self._data.qpos[joint.qposadr[0]] = angle
        self.wanted = angles.copy()
        self.grip = -1.0
        self.send(0.0)

    def follow(self, velocity: FloatArray, turn: FloatArray, seconds: float) -> None:
        """Move the wanted joint angles so that the hand has this velocity (m/s) and turn rate (rad/s) for a while."""
        change = self._step(np.concatenate([velocity, turn]) * seconds, POSTURE_GAIN * seconds)
        now = self._data.qpos[self.qpos]
        self.wanted = np.clip(self.wanted + change, now - LEAD_RAD, now + LEAD_RAD)
        self.wanted = np.clip(self.wanted, self.limits[:, 0], self.limits[:, 1])

    def squeeze(self, closed: bool, seconds: float) -> None:
        """Move the fingers' command on towards closed or open."""
        step = 2.0 * seconds / GRIPPER_TIME_S
        self.grip = float(np.clip(self.grip + (step if closed else -step), -1.0, 1.0))

    def send(self, _share: float) -> None:
        """Write the wanted angles to the servos."""
        self._data.ctrl[self._acts] = self.wanted
        self._data.ctrl[self._fingers] = self._middle + self._span * self._sense * self.grip

    def joint_state(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Positions, velocities, efforts of the joints and the first finger joint."""
        at, dofs = np.append(self.qpos, self.finger), np.append(self.dofs, self.finger_dof)
        data = self._data
        return data.qpos[at], data.qvel[dofs], data.qfrc_actuator[dofs]
