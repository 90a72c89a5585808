"""The same view as a stream for the Rerun viewer (extra [rerun]): picture, curves, alarms, the bar beside the arm."""

from __future__ import annotations

import socket
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from rollout_monitor.errors import InputError
from rollout_monitor.frames import RgbImage
from rollout_monitor.images import encode_jpeg
from rollout_monitor.records import Severity
from rollout_monitor.report.overlay.markers import Marker, Part, Place, Shape, markers
from rollout_monitor.report.overlay.view import ViewState
from rollout_monitor.report.overlay.words import alarm_text, lines

APPLICATION = "rollout-monitor"
TIMELINE = "stream_time"
FILE_ENDING = ".rrd"
LISTENS_WITHIN_S = 1.0
CLOSE_WITHIN_S = 1.0
SCHEMES = ("rerun://", "rerun+http://", "rerun+https://")
_LEVELS = {Severity.INFO: "INFO", Severity.WARN: "WARN", Severity.ERROR: "ERROR"}


class RerunStream:
    """Sends views to a running viewer, or into a file."""

    def __init__(self, target: str, robot: str = "") -> None:
        """Open the stream.

        Args:
            target: file that ends in ``.rrd``, or the URL of a viewer, ``rerun+http://127.0.0.1:9876/proxy``.
            robot: name of the recording, so that several robots are told apart in one viewer.

        Raises:
            InputError: neither of these, a file that cannot be written, a viewer that does not listen, or the extra is
                not installed.
        """
        is_file = target.endswith(FILE_ENDING)
        if not is_file and not target.startswith(SCHEMES):
            raise InputError(
                f"rerun target {target!r}: give a file that ends in {FILE_ENDING}, or the URL of a viewer such as "
                "rerun+http://127.0.0.1:9876/proxy"
            )
        self._rr = _import()
        self._stream = self._rr.RecordingStream(APPLICATION)
        self._alarms: set[tuple[str, int, Severity]] = set()
        if is_file:
            _ensure_folder(Path(target))
        else:
            _ensure_listening(target)
        try:
            self._stream.save(target) if is_file else self._stream.connect_grpc(target)
        except (RuntimeError, ValueError, OSError) as error:
            raise InputError(f"rerun target {target!r}: {error}") from error
        self._stream.send_recording_name(robot.strip("/") or "robot")

    def send(self, view: ViewState, overlay: RgbImage | None, place: Place) -> None:
        """Send one view; nothing before the monitor was heard, for there is no stream time yet."""
        if view.stamp_ns is None:
            return
        rr, log = self._rr, self._log
        self._stream.set_time(TIMELINE, timestamp=view.stamp_ns / 1e9)
        if overlay is not None:
            log("overlay", rr.EncodedImage(contents=encode_jpeg(overlay), media_type="image/jpeg"))
        for name in ("progress", "mp", "drawdown", "smoothness"):
            value = getattr(view, name)
            if value is not None:
                log(f"curves/{name}", rr.Scalars(value))
        log("now", rr.TextDocument("\n".join(lines(view)), media_type="text/plain"))
        self._send_alarms(view)
        made = markers(view, place)
        for marker in made:
            log(_path(marker.part), self._shape(marker))
        for part in set(Part) - {marker.part for marker in made}:
            log(_path(part), rr.Clear(recursive=False))

    def close(self) -> None:
        """Send what is left and let go; what a viewer that is gone did not get is lost."""
        with suppress(RuntimeError):
            self._stream.flush(timeout_sec=CLOSE_WITHIN_S)
        self._stream.disconnect()

    def _send_alarms(self, view: ViewState) -> None:
        """Each alarm once, and again when it grows."""
        now = {(event.episode_id, event.event_id, event.severity): event for event in view.alarms}
        for key, event in now.items():
            if key not in self._alarms:
                self._log("alarms", self._rr.TextLog(alarm_text(event), level=_LEVELS[event.severity]))
        self._alarms = set(now)

    def _shape(self, marker: Marker) -> object:
        rr = self._rr
        colour = [round(255 * part) for part in marker.colour]
        if marker.shape is Shape.CUBE:
            return rr.Boxes3D(centers=[marker.position], sizes=[marker.scale], colors=[colour], fill_mode="solid")
        if marker.shape is Shape.TEXT:
            return rr.Points3D([marker.position], labels=[marker.text], radii=[marker.scale[2] / 10], colors=[colour])
        points = [[a + b for a, b in zip(point, marker.position, strict=True)] for point in marker.points]
        pairs = [points[index : index + 2] for index in range(0, len(points), 2)]
        strips = pairs if marker.shape is Shape.LINE_LIST else [points]
        return rr.LineStrips3D(strips, radii=[marker.scale[0] / 2] * len(strips), colors=[colour] * len(strips))

    def _log(self, path: str, entity: object) -> None:
        self._stream.log(path, entity)


def _path(part: Part) -> str:
    return f"arm/{part.name.lower()}"


def _import() -> Any:
    try:
        import rerun  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise InputError(
            "the Rerun stream needs the extra [rerun] (Python 3.11 or newer): pip install 'rollout-monitor[rerun]'"
        ) from error
    return rerun


def _ensure_listening(url: str) -> None:
    """The SDK waits five seconds for a viewer that is not there, and five more at the end."""
    try:
        parts = urlsplit(url)
        socket.create_connection((parts.hostname or "", parts.port or 9876), LISTENS_WITHIN_S).close()
    except (OSError, ValueError) as error:
        raise InputError(f"rerun target {url!r}: no viewer listens there ({error}); start `rerun` first") from error


def _ensure_folder(file: Path) -> None:
    if not file.parent.is_dir():
        raise InputError(f"rerun target {str(file)!r}: the folder {str(file.parent)!r} does not exist")
