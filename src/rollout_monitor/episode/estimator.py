"""Runs a progress model over an episode's frame sets and turns its answers into estimates."""

from __future__ import annotations

from rollout_monitor.episode.gate import Selected
from rollout_monitor.errors import InputError, ModelError
from rollout_monitor.frames import FrameSet, RgbImage
from rollout_monitor.prm.protocol import Observation, ProgressModel, ResetNotes
from rollout_monitor.records import MOST_SUBTASKS, EpisodeMarker, EstimateStatus, ProgressEstimate


class Estimator:
    """One progress model, one episode at a time. Not thread safe: call it from one thread."""

    def __init__(self, model: ProgressModel) -> None:
        self._model = model
        self._card = model.card
        self._episode_id = ""
        self.notes = ResetNotes()
        self._told = False

    def start(self, marker: EpisodeMarker) -> ResetNotes:
        """Begin an episode: the model forgets the one before.

        Raises:
            InputError: the model cannot use this task text.
        """
        self._episode_id = marker.episode_id
        self._told = False
        self.notes = self._model.reset(marker.task)
        return self.notes

    def observe(self, selected: Selected, *, dropped: int = 0) -> ProgressEstimate:
        """Decode a frame set and ask the model; a failure becomes a MISSING estimate, never a number."""
        try:
            observation = _checked(self._model.observe(self._decode(selected)))
        except (ModelError, InputError) as error:
            observation = Observation(progress=None, reason=str(error))
        except Exception as error:
            observation = Observation(progress=None, reason=f"the model failed: {type(error).__name__}: {error}")
        warning = "" if self._told else "; ".join(self.notes.notes)  # the model's notes ride on its first estimate
        self._told = True
        return ProgressEstimate(
            stamp_ns=selected.stamp_ns,
            episode_id=self._episode_id,
            status=EstimateStatus.MISSING if observation.progress is None else EstimateStatus.OK,
            progress=observation.progress,
            lower=observation.lower,
            upper=observation.upper,
            success_probability=observation.success_probability,
            direction=observation.direction,
            subtask=observation.subtask,
            reason="; ".join(filter(None, (observation.reason, warning))),
            camera_stamps_ns={camera: frame.stamp_ns for camera, frame in selected.frames.items()},
            model=self._card.name,
            model_hash=self._card.sha256,
            dropped=dropped,
        )

    def end(self, marker: EpisodeMarker, *, dropped: int = 0) -> ProgressEstimate:
        """The estimate that says no further one follows."""
        return ProgressEstimate(
            stamp_ns=marker.stamp_ns,
            episode_id=marker.episode_id,
            status=EstimateStatus.END_OF_EPISODE,
            model=self._card.name,
            model_hash=self._card.sha256,
            dropped=dropped,
        )

    def _decode(self, selected: Selected) -> FrameSet:
        images: dict[str, RgbImage] = {}
        for index, (camera, frame) in enumerate(selected.frames.items()):
            try:
                images[camera] = frame.decode()
            except InputError:
                if index == 0:  # the primary camera: there is nothing to judge
                    raise
        stamps = {camera: selected.frames[camera].stamp_ns for camera in images}
        return FrameSet(selected.stamp_ns, images, stamps, selected.joints)


def _checked(observation: Observation) -> Observation:
    """An answer outside 0..1 is a broken model, not a number to clip.

    Raises:
        ModelError: names the value.
    """
    for name in ("progress", "lower", "upper", "success_probability"):
        value = getattr(observation, name)
        if value is not None and not 0.0 <= value <= 1.0:
            raise ModelError(f"the model answered {name} = {value}, which is not between 0 and 1")
    if observation.subtask is not None and not 0 <= observation.subtask <= MOST_SUBTASKS:
        raise ModelError(f"the model answered subtask = {observation.subtask}, not between 0 and {MOST_SUBTASKS}")
    return observation
