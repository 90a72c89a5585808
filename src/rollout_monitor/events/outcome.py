"""How the attempt went, decided at its end; and the time it may take."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import median

import numpy as np

from rollout_monitor.errors import InputError
from rollout_monitor.events.settings import OutcomeSettings, TimeoutSettings
from rollout_monitor.records import Label, Outcome, OutcomeDecision

_NS = 1_000_000_000
_STALE_STEPS = 3  # estimates a model may owe at the end before its last one is too old to decide


def decide(
    stamps_ns: Sequence[int],
    progress: Sequence[float],
    probabilities: Sequence[float | None],
    end_ns: int,
    label: Label | None,
    settings: OutcomeSettings,
    *,
    calibrated: bool = False,
) -> OutcomeDecision:
    """Decide the outcome: a given label wins, then what ``settings.decide_by`` names.

    The last ``settings.window_s`` before the last sample decides, by its median: what was reached and lost again is
    not a success.

    Args:
        stamps_ns: stamp of each sample, nanoseconds, advancing; may be empty.
        progress: the raw progress of each sample.
        probabilities: the model's success probability of each sample, ``None`` where it gave none.
        end_ns: when the attempt ended. Estimates that stopped long before it decide nothing.
        label: what somebody said, if anybody did.
        settings: thresholds.
        calibrated: whether the thresholds come from a calibration file.
    """
    if not stamps_ns:
        return _labelled(label, None) or OutcomeDecision(
            outcome=Outcome.UNDECIDED, decided_by="none", reason="no progress estimate came: nothing to decide on"
        )
    silent_s = (end_ns - stamps_ns[-1]) / _NS
    if silent_s > max(settings.window_s, _STALE_STEPS * _usual_step_s(stamps_ns)):
        return _labelled(label, None) or OutcomeDecision(
            outcome=Outcome.UNDECIDED,
            decided_by="none",
            reason=f"the last estimate is {silent_s:.1f} s older than the end: how it ended was not seen",
        )
    first = stamps_ns[-1] - settings.window_s * _NS
    tail = [index for index, stamp in enumerate(stamps_ns) if stamp >= first]
    given = [value for value in (probabilities[index] for index in tail) if value is not None]
    level = median(progress[index] for index in tail)
    chance = median(given) if given else None
    if (decision := _labelled(label, chance)) is not None:
        return decision
    if chance is not None and settings.decide_by == "probability":
        good = chance >= settings.probability_threshold
        return OutcomeDecision(
            outcome=Outcome.SUCCESS if good else Outcome.FAILURE,
            decided_by="model",
            probability=chance,
            calibrated=calibrated,
            reason=f"the model's success probability over the last {settings.window_s:g} s is {chance:.0%} "
            f"({'at or above' if good else 'below'} {settings.probability_threshold:.0%}); progress ended at "
            f"{level:.0%}",
        )
    good = level >= settings.progress_threshold
    return OutcomeDecision(
        outcome=Outcome.SUCCESS if good else Outcome.FAILURE,
        decided_by="progress",
        probability=chance,
        calibrated=calibrated,
        reason=f"progress over the last {settings.window_s:g} s is {level:.0%} "
        f"({'at or above' if good else 'below'} {settings.progress_threshold:.0%})",
    )


def _usual_step_s(stamps_ns: Sequence[int]) -> float:
    steps = [b - a for a, b in pairwise(stamps_ns)]
    return median(steps) / _NS if steps else 0.0


def _labelled(label: Label | None, chance: float | None) -> OutcomeDecision | None:
    if label is None:
        return None
    return OutcomeDecision(
        outcome=Outcome(label.value),
        decided_by="label",
        probability=chance,
        reason=f"labelled {label.value} by whoever ended the attempt",
    )


def time_budget(durations_s: Sequence[float], settings: TimeoutSettings) -> float | None:
    """The longest run allowed, seconds: the setting, or a quantile of the task's own successes with slack.

    Returns:
        The budget; ``None`` where neither is there (then TIMEOUT is never raised).

    Raises:
        InputError: a duration is negative or not finite.
    """
    if settings.budget_s > 0.0:
        return settings.budget_s
    for index, duration in enumerate(durations_s):
        if not (np.isfinite(duration) and duration >= 0.0):
            raise InputError(f"duration {index} of the task's history is {duration!r}: expected seconds, 0 or more")
    if len(durations_s) < settings.history_min_n:
        return None
    return float(np.quantile(np.asarray(durations_s), settings.history_quantile)) * settings.history_factor
