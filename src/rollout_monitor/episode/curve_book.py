"""The progress curve of the running episode: live figures per sample, final ones at the end."""

from __future__ import annotations

import math
import struct

import numpy as np
import numpy.typing as npt

from rollout_monitor.curve.opd import StreamingOpd, compute
from rollout_monitor.curve.settings import OpdSettings
from rollout_monitor.curve.smoothing import CausalSmoother, smooth_final
from rollout_monitor.episode.spool import Spool
from rollout_monitor.records import (
    CurvePoint,
    Label,
    LiveFinalGap,
    OpdMetrics,
    Outcome,
    OutcomeDecision,
    ProgressEstimate,
)

_OPTIONAL = ("lower", "upper", "success_probability", "subtask")
_SAMPLE = struct.Struct("<q6d")
_ROW = [("stamp", "<i8"), ("raw", "<f8"), ("live", "<f8"), *((name, "<f8") for name in _OPTIONAL)]
_COMPARED = ("mp", "tv", "ppl", "cra", "str_", "max_drawdown", "drr", "fns", "sqs")


class CurveBook:
    """Keeps the raw curve and both smoothings of it (spec: live is causal, final sees the whole curve).

    56 bytes a sample, which go to a temporary file as they come: hours of an episode cost no memory.
    """

    def __init__(self, settings: OpdSettings) -> None:
        self._settings = settings
        self._smoother = CausalSmoother(settings.live_tau_s)
        self._samples = Spool(_ROW)
        self.opd = StreamingOpd(settings)

    def add(self, estimate: ProgressEstimate) -> float:
        """Take an estimate with a value; return the live smoothed progress."""
        if estimate.progress is None:
            raise ValueError("a missing estimate is no sample of the curve")
        live = self._smoother.update(estimate.stamp_ns, estimate.progress)
        optional = [math.nan if (value := getattr(estimate, name)) is None else value for name in _OPTIONAL]
        self._samples.append(_SAMPLE.pack(estimate.stamp_ns, estimate.progress, live, *optional))
        self.opd.update(live)
        return live

    def __len__(self) -> int:
        return len(self._samples)

    @property
    def stamps_ns(self) -> list[int]:
        """Stamp of each sample."""
        return list(self._samples.rows()["stamp"].tolist())

    @property
    def raw(self) -> list[float]:
        """Raw progress of each sample."""
        return list(self._samples.rows()["raw"].tolist())

    @property
    def probabilities(self) -> list[float | None]:
        """Success probability of each sample."""
        return [_known(value) for value in self._samples.rows()["success_probability"].tolist()]

    def final(self) -> npt.NDArray[np.float64]:
        """Progress smoothed with the whole curve at hand, shape (n,), each in [0, 1]."""
        if not len(self._samples):
            return np.empty(0)
        return np.clip(smooth_final(self.raw, self.stamps_ns, self._settings), 0.0, 1.0)

    def metrics(self, outcome: OutcomeDecision) -> tuple[OpdMetrics | None, OpdMetrics | None]:
        """Metrics as last seen live, and of the finally smoothed curve; None where there is no sample.

        The decided outcome stands in for a label that nobody gave, so that a report which says success carries SQS
        and one which says failure carries FNS; ``success_from`` tells which of the two it was.
        """
        if not len(self._samples):
            return None, None
        decided = outcome.outcome is not Outcome.UNDECIDED
        label = Label(outcome.outcome.value) if decided else None
        live = self.opd.metrics(label)
        final = compute(self.final(), self._settings, label)
        if decided and outcome.decided_by != "label":
            live = live.model_copy(update={"success_from": "outcome"})
            final = final.model_copy(update={"success_from": "outcome"})
        return live, final

    def points(self) -> list[CurvePoint]:
        """The curve for the report."""
        if not len(self._samples):
            return []
        rows = self._samples.rows()
        columns = [rows[name].tolist() for name in ("stamp", "raw", "live")]
        columns += [self.final().tolist(), *(rows[name].tolist() for name in _OPTIONAL)]
        return [
            CurvePoint(
                stamp_ns=stamp,
                raw=raw,
                live=live,
                final=final,
                lower=_known(lower),
                upper=_known(upper),
                success_probability=_known(chance),
                subtask=None if math.isnan(subtask) else int(subtask),
            )
            for stamp, raw, live, final, lower, upper, chance, subtask in zip(*columns, strict=True)
        ]


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


def largest_gap(live: OpdMetrics | None, final: OpdMetrics | None) -> LiveFinalGap | None:
    """The metric that moved most between the last live value and the final one; None where nothing compares."""
    if live is None or final is None:
        return None
    pairs = [(name, getattr(live, name), getattr(final, name)) for name in _COMPARED]
    both = [(name.rstrip("_"), a, b) for name, a, b in pairs if a is not None and b is not None]
    name, a, b = max(both, key=lambda item: abs(item[1] - item[2]))
    return LiveFinalGap(metric=name, live=a, final=b)
