"""Both halves of the engine in one process: offline evaluation, simulation, tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

from rollout_monitor.episode.estimator import Estimator
from rollout_monitor.episode.gate import Decode, Selected
from rollout_monitor.episode.monitor import Monitor
from rollout_monitor.episode.monitor import Output as MonitorOutput
from rollout_monitor.episode.perception import EndJob, Perception, StartJob
from rollout_monitor.episode.perception import Output as PerceptionOutput
from rollout_monitor.episode.pictures import Picture, PictureClock
from rollout_monitor.episode.settings import GateSettings, MonitorSettings
from rollout_monitor.errors import InputError
from rollout_monitor.images import encode_jpeg
from rollout_monitor.prm.protocol import ProgressModel
from rollout_monitor.records import CameraHealth, EpisodeMarker, KinematicSummary


class RolloutMonitor:
    """The whole engine, fed with one robot's streams in the order they were recorded.

    Nothing is dropped: the model sees every chosen frame set, however long it takes.
    """

    def __init__(
        self,
        model: ProgressModel,
        gate: GateSettings | None = None,
        monitor: MonitorSettings | None = None,
        budget: Callable[[str], float | None] | None = None,
    ) -> None:
        gate = gate or GateSettings(rate_hz=model.card.rate_hz)
        gate = gate.model_copy(update={"joints": model.card.joints})
        monitor = monitor or MonitorSettings()
        self._primary = gate.cameras[0]
        self._perception = Perception(gate, monitor.motion)
        self._estimator = Estimator(model)
        self._monitor = Monitor(monitor, budget)
        self._picture_clock = PictureClock()

    @property
    def monitor(self) -> Monitor:
        """The monitor half, for its status."""
        return self._monitor

    @property
    def perception(self) -> Perception:
        """The perception half, for its counts."""
        return self._perception

    def on_marker(self, marker: EpisodeMarker) -> list[MonitorOutput]:
        """Hear an episode boundary."""
        jobs = self._perception.on_marker(marker)
        return self._monitor.on_marker(marker) + self._do(jobs)

    def on_image(self, camera: str, stamp_ns: int, decode: Decode, fingerprint: bytes | int) -> list[MonitorOutput]:
        """Take a frame; see `FrameGate.on_image`."""
        if camera == self._primary and self._picture_clock.wants(stamp_ns):
            with suppress(InputError):  # a frame that does not decode is counted by the gate; the report goes without
                self._monitor.on_picture(Picture(stamp_ns, camera, encode_jpeg(decode())))
        return self._do(self._perception.on_image(camera, stamp_ns, decode, fingerprint))

    def on_bad_image(self, camera: str) -> None:
        """Count a frame that is seen to be unreadable without decoding it; the model is not offered it."""
        self._perception.gate.on_bad_image(camera)

    def on_joints(
        self,
        stamp_ns: int,
        names: Sequence[str],
        positions: Sequence[float],
        velocities: Sequence[float] = (),
        efforts: Sequence[float] = (),
    ) -> list[MonitorOutput]:
        """Take a joint state message as it came."""
        return self._do(self._perception.on_joints(stamp_ns, names, positions, velocities, efforts))

    def finish(self) -> list[MonitorOutput]:
        """No more input: close what is open."""
        out = self._do(self._perception.finish_episode()) if self._perception.ending else []
        return out + self._monitor.finish()

    def _do(self, outputs: list[PerceptionOutput]) -> list[MonitorOutput]:
        out: list[MonitorOutput] = []
        for item in outputs:
            if isinstance(item, Selected):
                out += self._monitor.on_estimate(self._estimator.observe(item))
            elif isinstance(item, KinematicSummary):
                out += self._monitor.on_kinematics(item)
            elif isinstance(item, CameraHealth):
                out += self._monitor.on_camera(item)
            elif isinstance(item, StartJob):
                self._estimator.start(item.marker)
            elif isinstance(item, EndJob):
                out += self._monitor.on_estimate(self._estimator.end(item.marker))
        return out
