"""OPD metrics of a curve that is still growing: O(1) time and memory per sample, whatever the episode's length."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rollout_monitor.curve.checks import as_curve, bad_sample
from rollout_monitor.curve.settings import DEFAULT, MILESTONES, OpdSettings
from rollout_monitor.errors import InputError
from rollout_monitor.records import Label, OpdMetrics


class StreamingOpd:
    """OPD metrics of a curve that is still growing: O(1) time and memory per sample.

    The cheap properties are plain attributes' values; only `metrics` builds the record.

    >>> live = StreamingOpd()
    >>> for p in (0.1, 0.5, 0.9, 0.1, 0.1):
    ...     live.update(p)
    >>> live.mp, round(live.drawdown, 3), live.metrics().drr
    (0.9, 0.8, 0.0)
    """

    __slots__ = (
        "_after",
        "_count",
        "_deepest",
        "_drawdown",
        "_eps",
        "_last",
        "_leading_zero",
        "_mp",
        "_regret",
        "_settings",
        "_still",
        "_trough",
        "_trough_index",
        "_tv",
    )

    def __init__(self, settings: OpdSettings = DEFAULT) -> None:
        self._settings = settings
        self._eps = settings.eps
        self._leading_zero = settings.rules.leading_zero
        self._count = 0
        self._last = 0.0
        self._mp = 0.0
        self._tv = 0.0
        self._still = 0
        self._regret = 0.0
        self._drawdown = 0.0
        self._deepest = 0.0  # d at t*, the first largest drawdown so far
        self._trough_index = 0  # t*
        self._trough = 0.0  # progress at t*
        self._after = 0.0  # largest progress from t* on

    def update(self, p: float) -> None:
        """Take the next sample.

        Raises:
            InputError: not finite or outside [0, 1]; the state is as before the call.
        """
        try:
            inside = 0.0 <= p <= 1.0  # false for NaN
            p = float(p)
        except (TypeError, ValueError) as error:
            raise InputError(f"sample {self._count} is {p!r}, not a number") from error
        if not inside:
            raise InputError(bad_sample(self._count, p))
        first = self._count == 0
        if not first or self._leading_zero:
            step = abs(p - self._last)
            self._tv += step
            self._still += step < self._eps
        self._mp = max(self._mp, p)
        drawdown = self._mp - p
        self._regret += drawdown
        if drawdown > self._deepest or first:  # strictly: the first of equal drawdowns stays t*
            self._deepest = drawdown
            self._trough_index = self._count
            self._trough = self._after = p
        elif p > self._after:
            self._after = p
        self._drawdown = drawdown
        self._last = p
        self._count += 1

    @property
    def count(self) -> int:
        """Samples taken."""
        return self._count

    @property
    def mp(self) -> float:
        """Maximum progress so far; 0 before the first sample."""
        return self._mp

    @property
    def drawdown(self) -> float:
        """Current d_t: maximum so far minus the newest sample."""
        return self._drawdown

    @property
    def max_drawdown(self) -> float:
        """Largest d_t so far."""
        return self._deepest

    def metrics(self, label: Label | None = None) -> OpdMetrics:
        """All metrics of the curve up to here.

        Raises:
            InputError: no sample was taken yet.
        """
        if self._count == 0:
            raise InputError("the progress curve is empty; at least one sample is needed")
        settings, rules, mp = self._settings, self._settings.rules, self._mp
        steps = self._count if rules.leading_zero else self._count - 1
        peak = mp if rules.peak_efficiency else self._last
        ppl = min(1.0, peak * peak / self._tv) if self._tv > rules.path_floor else 0.0
        regret = self._regret / self._count
        cra = (regret / mp if mp > 0.0 else 0.0) if rules.relative_regret else regret
        stagnation = self._still / steps if steps else 0.0
        success = label is Label.SUCCESS if label is not None else mp >= settings.success_threshold
        mc25, mc50, mc75, mc100 = (mp >= q for q in MILESTONES)
        drr = fns = sqs = None
        if rules.diagnoses:
            if self._deepest > rules.drawdown_floor:
                guard = rules.recovery_guard
                drr = min(1.0, (self._after - self._trough + guard) / (self._deepest + guard))
            if success:
                sqs = settings.sqs_ppl * ppl + settings.sqs_cra * (1.0 - cra) + settings.sqs_str * (1.0 - stagnation)
                sqs = min(1.0, max(0.0, sqs))
            else:
                fns = settings.fns_mp * mp + settings.fns_mc75 * mc75 + settings.fns_mc50 * mc50
        return OpdMetrics(
            convention=settings.convention,
            samples=self._count,
            success=success,
            success_from="progress" if label is None else "label",
            mp=mp,
            mc25=mc25,
            mc50=mc50,
            mc75=mc75,
            mc100=mc100,
            tv=self._tv,
            ppl=ppl,
            cra=cra,
            str=stagnation,
            max_drawdown=self._deepest,
            max_drawdown_index=self._trough_index,
            drr=drr,
            fns=fns,
            sqs=sqs,
        )


def prefixes(curve: Any, settings: OpdSettings = DEFAULT, label: Label | None = None) -> Iterator[OpdMetrics]:
    """Metrics at every prefix p_0..p_t of a curve, t = 0..T; O(1) each.

    Raises:
        InputError: see `as_curve`; raised before the first item.
    """
    checked = as_curve(curve)
    live = StreamingOpd(settings)
    for value in checked.tolist():
        live.update(value)
        yield live.metrics(label)
