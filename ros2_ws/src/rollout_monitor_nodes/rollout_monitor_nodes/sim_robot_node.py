"""sim_robot_node: takes at the simulated table as a robot that publishes cameras, joint states and episode markers."""

from __future__ import annotations

import re
import sys
import threading
import time
import traceback
from typing import TYPE_CHECKING, Any

from rclpy.node import Node
from rclpy.task import Future
from sensor_msgs.msg import CompressedImage, JointState

from rollout_monitor.errors import RolloutMonitorError
from rollout_monitor.images import encode_jpeg
from rollout_monitor.records import Boundary, EpisodeMarker, Label
from rollout_monitor_nodes.common.conversions import marker_to_msg, time_to_msg
from rollout_monitor_nodes.common.params import declare
from rollout_monitor_nodes.common.publishing import destroy_publishers, make_publisher
from rollout_monitor_nodes.common.spin import EXIT_FAILED, EXIT_OK, call_soon, complain, run
from rollout_monitor_nodes.interfaces import COMPRESSED, EPISODE, JOINT_STATE, SIM_ROBOT_NODE, Topic
from rollout_monitor_nodes.player import Pacer
from rollout_monitor_nodes.settings import SimRobotSettings
from rollout_monitor_nodes.waiting import SubscriberWait

if TYPE_CHECKING:
    from rollout_monitor.sim.tabletop.takes import CameraFrame, JointSample, LiveTake

SETTLE_S = 0.5
FAREWELL_S = 5.0
LATE_S = 0.25
"""A robot this late behind its own stamps is told of: the machine is too slow for real time."""

FRAME_RATE_HZ = 10.0
NAME = "sim_robot"


class SimRobotNode(Node):
    """See the module's text."""

    def __init__(self) -> None:
        super().__init__(SIM_ROBOT_NODE.name)
        self.exit = Future()
        self.settings = declare(self, SimRobotSettings)
        self._halt = threading.Event()
        self._thread = threading.Thread(target=self._work_and_end, name="take", daemon=True)
        self._markers = make_publisher(self, EPISODE)
        self._joints = make_publisher(self, Topic("joint_states", JOINT_STATE, "REPLAY", ""))
        self._cameras: dict[str, Any] = {}

    # --- what `run` asks for ------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Simulate in a thread of its own, which sets up everything: a renderer belongs to the thread that made it."""
        self._thread.start()

    def stop(self, reason: str) -> None:  # noqa: ARG002
        """End the attempt; the thread ends the node."""
        self._halt.set()

    def close(self) -> None:
        """Wait for the thread, and until everybody has the last marker: without its end an attempt gets no report."""
        self._halt.set()
        if self._thread.is_alive():
            self._thread.join()
        destroy_publishers(self, [self._markers, self._joints, *self._cameras.values()], FAREWELL_S)

    # --- in the simulation's thread -----------------------------------------------------------------------------

    def _take(self, attempt: int) -> LiveTake:
        from rollout_monitor.sim.tabletop import plans, takes  # noqa: PLC0415 - loads the simulator

        wanted = self.settings
        (spec,) = plans.plan_takes(
            wanted.plan, 1, wanted.seed + attempt, task=wanted.task, mode=wanted.mode, arm=wanted.arm
        )
        return takes.LiveTake(spec, frame_rate_hz=FRAME_RATE_HZ)

    def _work_and_end(self) -> None:
        code = EXIT_FAILED
        try:
            take = self._take(0)
            for camera in take.views:
                topic = Topic(f"camera_{camera}/color/image_raw/compressed", COMPRESSED, "REPLAY_IMAGES", "")
                self._cameras[camera] = make_publisher(self, topic)
            self._wait_for_subscribers()
            self._attempts(take)
            code = EXIT_OK
        except RolloutMonitorError as error:  # the extra [sim] is missing, or there is no such plan, task, mode or arm
            code = complain(self.get_name(), error)
        except Exception:
            self.get_logger().fatal(traceback.format_exc())
        finally:
            executor = self.executor
            if executor is not None:
                call_soon(executor, self._finish, code)

    def _finish(self, code: int) -> None:
        if not self.exit.done():
            self.exit.set_result(code)

    def _wait_for_subscribers(self) -> None:
        cameras = {f"camera {camera}": publisher for camera, publisher in self._cameras.items()}
        publishers = {"rollout/episode": self._markers, "joint_states": self._joints, **cameras}
        wait = SubscriberWait(
            dict.fromkeys(publishers, 1),
            lambda topic: publishers[topic].get_subscription_count(),
            settle_s=SETTLE_S,
            timeout_s=self.settings.wait_for_subscribers_s,
        )
        missing = wait.run(self._halt)
        if missing:
            self.get_logger().warning(f"starting although nobody listens to {', '.join(missing)}")

    def _attempts(self, take: LiveTake) -> None:
        attempt = 0
        while not self._halt.is_set():
            self._attempt(take)
            attempt += 1
            if attempt == self.settings.attempts or self._halt.wait(self.settings.pause_s):
                return
            take = self._take(attempt)

    def _attempt(self, take: LiveTake) -> None:
        pacer = Pacer(self.settings.rate, time.monotonic_ns, self._halt)
        marker: EpisodeMarker | None = None
        last_ns, complete = 0, True
        for sample in take.stream():
            if marker is None:  # setting the scene took its time: the attempt begins with its first sample
                marker = self._start_marker(take)
                self._markers.publish(marker_to_msg(marker))
                last_ns = marker.stamp_ns
            if not pacer.wait(sample.stamp_ns):
                complete = False
                break
            last_ns = marker.stamp_ns + sample.stamp_ns
            self._publish(take, sample, last_ns)
        if marker is None:
            return
        label = Label(take.outcome) if complete and self.settings.label else None
        end = marker.model_copy(update={"boundary": Boundary.END, "stamp_ns": last_ns, "label": label})
        self._markers.publish(marker_to_msg(end))
        if pacer.latest_ns > LATE_S * 1e9:
            self.get_logger().warning(
                f"this machine is too slow for the simulation at rate {self.settings.rate:g}: "
                f"up to {pacer.latest_ns / 1e9:.1f} s behind; lower parameter rate"
            )

    def _start_marker(self, take: LiveTake) -> EpisodeMarker:
        return EpisodeMarker(
            boundary=Boundary.START,
            stamp_ns=int(self.get_clock().now().nanoseconds),
            episode_id=re.sub("[:>]", "_", f"{take.spec.task}_{take.spec.mode}_{take.spec.seed}"),
            task=take.spec.text,
            source=NAME,
        )

    def _publish(self, take: LiveTake, sample: JointSample | CameraFrame, stamp_ns: int) -> None:
        from rollout_monitor.sim.tabletop.takes import JointSample  # noqa: PLC0415 - loads the simulator

        if isinstance(sample, JointSample):
            position, velocity, effort = sample.values
            msg = JointState(
                name=take.joint_names, position=position.tolist(), velocity=velocity.tolist(), effort=effort.tolist()
            )
            publisher = self._joints
        else:
            msg = CompressedImage(format="jpeg", data=encode_jpeg(sample.rgb, self.settings.jpeg_quality))
            msg.header.frame_id = f"{sample.view}_optical_frame"
            publisher = self._cameras[sample.view]
        msg.header.stamp = time_to_msg(stamp_ns)
        publisher.publish(msg)


def main() -> None:
    """Executable."""
    sys.exit(run("sim_robot_node", SimRobotNode))


if __name__ == "__main__":
    main()
