"""OPD metrics of complete progress curves, one or many at once; `StreamingOpd` is the growing curve's twin.

Source: PRM-as-a-Judge 1.5 (outcome: MP, MC@q; process: PPL; diagnosis: CRA, STR, DRR, FNS, SQS). The conventions are
one implementation with a switch (`settings.Rules`). Streaming and batch agree to 1e-9 at every prefix.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from rollout_monitor.curve.checks import Floats, as_curve, bad_sample
from rollout_monitor.curve.settings import DEFAULT, MILESTONES, Convention, OpdSettings
from rollout_monitor.curve.streaming import StreamingOpd, prefixes
from rollout_monitor.errors import InputError
from rollout_monitor.records import Label, OpdMetrics

__all__ = ["OpdArrays", "StreamingOpd", "as_curve", "compute", "compute_many", "prefixes"]

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]

CHUNK_SAMPLES = 1 << 17  # samples per vectorised block: 1 MiB of float64, so the temporaries stay in the cache


@dataclass(frozen=True)
class OpdArrays:
    """OPD metrics of N curves, one array of shape (N,) per metric.

    Floats are float64. In ``drr``, ``fns`` and ``sqs`` NaN marks a rollout to which the metric does not apply; the
    other arrays never hold NaN. `record` gives one curve's metrics as a record, with None in place of NaN.
    """

    convention: Convention
    samples: Ints
    success: Bools
    labelled: Bools
    mp: Floats
    mc25: Bools
    mc50: Bools
    mc75: Bools
    mc100: Bools
    tv: Floats
    ppl: Floats
    cra: Floats
    str_: Floats
    max_drawdown: Floats
    max_drawdown_index: Ints
    drr: Floats
    fns: Floats
    sqs: Floats

    def __len__(self) -> int:
        """Number of curves."""
        return len(self.samples)

    def record(self, index: int) -> OpdMetrics:
        """Metrics of curve ``index``."""
        return OpdMetrics(
            convention=self.convention,
            samples=int(self.samples[index]),
            success=bool(self.success[index]),
            success_from="label" if self.labelled[index] else "progress",
            mp=float(self.mp[index]),
            mc25=bool(self.mc25[index]),
            mc50=bool(self.mc50[index]),
            mc75=bool(self.mc75[index]),
            mc100=bool(self.mc100[index]),
            tv=float(self.tv[index]),
            ppl=float(self.ppl[index]),
            cra=float(self.cra[index]),
            str=float(self.str_[index]),
            max_drawdown=float(self.max_drawdown[index]),
            max_drawdown_index=int(self.max_drawdown_index[index]),
            drr=_absent(self.drr[index]),
            fns=_absent(self.fns[index]),
            sqs=_absent(self.sqs[index]),
        )


def _absent(value: np.float64) -> float | None:
    return None if np.isnan(value) else float(value)


def compute(curve: Any, settings: OpdSettings = DEFAULT, label: Label | None = None) -> OpdMetrics:
    """OPD metrics of one curve.

    Args:
        curve: T+1 progress values in [0, 1].
        settings: thresholds, weights and convention.
        label: the rollout's outcome where somebody gave one; it decides success.

    Raises:
        InputError: see `as_curve`.

    >>> round(compute([0, .2, .5, .4, .4, .7, .3, .6, 1]).sqs, 7)
    0.7016667
    """
    return _stack(_block(as_curve(curve)[np.newaxis, :], settings, [label]), settings).record(0)


def compute_many(
    curves: npt.ArrayLike | Sequence[Any],
    settings: OpdSettings = DEFAULT,
    labels: Sequence[Label | None] | None = None,
) -> OpdArrays:
    """OPD metrics of many curves, vectorised.

    Args:
        curves: an (N, T+1) array, or N curves of any lengths.
        settings: thresholds, weights and convention, the same for all.
        labels: N outcomes, None where there is none.

    Raises:
        InputError: a bad curve, named with its index and sample, or a number of labels that does not fit.
    """
    groups = _by_length(curves)
    count = sum(len(rows) for rows, _ in groups)
    if labels is not None and len(labels) != count:
        raise InputError(f"{len(labels)} labels were given for {count} curves; one each is needed")
    given: Sequence[Label | None] = labels if labels is not None else [None] * count
    parts: list[dict[str, npt.NDArray[Any]]] = []
    order: list[Ints] = []
    for rows, block in groups:
        step = max(1, CHUNK_SAMPLES // block.shape[1])
        for first in range(0, len(rows), step):
            chunk = rows[first : first + step]
            parts.append(_block(block[first : first + step], settings, [given[row] for row in chunk]))
            order.append(chunk)
    if not parts:
        return _stack(_block(np.empty((0, 1)), settings, []), settings)
    back = np.argsort(np.concatenate(order), kind="stable")
    return _stack({name: np.concatenate([part[name] for part in parts])[back] for name in parts[0]}, settings)


def _by_length(curves: npt.ArrayLike | Sequence[Any]) -> list[tuple[Ints, Floats]]:
    """Checked curves as rectangular blocks: (their indices, values of shape (n, T+1))."""
    if isinstance(curves, np.ndarray) and curves.ndim == 2:
        return [(np.arange(len(curves)), _checked_block(curves))] if len(curves) else []
    if not isinstance(curves, Sequence | np.ndarray):
        raise InputError("curves must be an (N, T+1) array or a sequence of curves")
    checked = [as_curve(curve, f"curve {index}") for index, curve in enumerate(curves)]
    lengths = np.array([len(curve) for curve in checked], dtype=np.int64)
    groups = []
    for length in np.unique(lengths):
        rows = np.flatnonzero(lengths == length)
        groups.append((rows, np.stack([checked[row] for row in rows])))
    return groups


def _checked_block(curves: npt.NDArray[Any]) -> Floats:
    block = np.ascontiguousarray(curves, dtype=np.float64)
    if block.shape[1] == 0:
        raise InputError("the curves are empty; at least one sample each is needed")
    # min and max propagate NaN, so two reductions find any bad value; its place is only looked for when there is one
    if not (block.min() >= 0.0 and block.max() <= 1.0):
        bad = ~((block >= 0.0) & (block <= 1.0))
        row, index = np.unravel_index(int(np.argmax(bad)), bad.shape)
        raise InputError(f"curve {row}: {bad_sample(int(index), float(block[row, index]))}")
    return block


def _block(p: Floats, settings: OpdSettings, labels: Sequence[Label | None]) -> dict[str, npt.NDArray[Any]]:
    """All metrics of checked curves of one length, ``p`` of shape (n, T+1)."""
    rules = settings.rules
    rows, samples = p.shape
    steps = np.abs(np.diff(p, axis=1, prepend=0.0) if rules.leading_zero else np.diff(p, axis=1))
    top = np.maximum.accumulate(p, axis=1)
    drawdown = top - p
    mp = top[:, -1]
    # cumsum adds in the order in which samples arrive, as the streaming code does; np.sum would not
    tv = np.cumsum(steps, axis=1)[:, -1] if steps.shape[1] else np.zeros(rows)
    regret = np.cumsum(drawdown, axis=1)[:, -1] / samples
    still = np.count_nonzero(steps < settings.eps, axis=1) / max(steps.shape[1], 1)
    peak = mp if rules.peak_efficiency else p[:, -1]
    cra = _ratio(regret, mp) if rules.relative_regret else regret
    trough = np.argmax(drawdown, axis=1)  # the first of equal maxima
    each = np.arange(rows)
    deepest = drawdown[each, trough]
    after = np.maximum.accumulate(p[:, ::-1], axis=1)[:, ::-1][each, trough]
    labelled = np.array([label is not None for label in labels], dtype=np.bool_)
    told = np.array([label is Label.SUCCESS for label in labels], dtype=np.bool_)
    out: dict[str, npt.NDArray[Any]] = {
        "samples": np.full(rows, samples, dtype=np.int64),
        "labelled": labelled,
        "success": np.where(labelled, told, mp >= settings.success_threshold),
        "mp": mp,
        **{f"mc{round(100 * q)}": mp >= q for q in MILESTONES},
        "tv": tv,
        "ppl": np.clip(np.where(tv > rules.path_floor, _ratio(peak * peak, tv), 0.0), 0.0, 1.0),
        "cra": cra,
        "str_": still,
        "max_drawdown": deepest,
        "max_drawdown_index": trough.astype(np.int64),
    }
    return {**out, **_diagnoses(out, after - p[each, trough], settings)}


def _diagnoses(m: dict[str, npt.NDArray[Any]], regained: Floats, settings: OpdSettings) -> dict[str, Floats]:
    """The metrics that apply to some rollouts only; NaN where they do not."""
    rules = settings.rules
    if not rules.diagnoses:
        absent = np.full(len(regained), np.nan)
        return {"drr": absent, "fns": absent, "sqs": absent}
    deepest = m["max_drawdown"]
    guard = rules.recovery_guard
    drr = np.minimum(1.0, _ratio(regained + guard, deepest + guard))
    fns = settings.fns_mp * m["mp"] + settings.fns_mc75 * m["mc75"] + settings.fns_mc50 * m["mc50"]
    sqs = settings.sqs_ppl * m["ppl"] + settings.sqs_cra * (1.0 - m["cra"]) + settings.sqs_str * (1.0 - m["str_"])
    return {
        "drr": np.where(deepest > rules.drawdown_floor, drr, np.nan),
        "fns": np.where(m["success"], np.nan, fns),
        "sqs": np.where(m["success"], np.clip(sqs, 0.0, 1.0), np.nan),
    }


def _ratio(above: Floats, below: Floats) -> Floats:
    """``above / below``, 0 where ``below`` is 0."""
    with np.errstate(over="ignore"):  # a path of a few denormals gives infinity, which the callers clip
        return np.divide(above, below, out=np.zeros_like(above), where=below > 0.0)


def _stack(parts: dict[str, npt.NDArray[Any]], settings: OpdSettings) -> OpdArrays:
    names = [field.name for field in fields(OpdArrays) if field.name != "convention"]
    return OpdArrays(convention=settings.convention, **{name: parts[name] for name in names})
