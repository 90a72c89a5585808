"""OPD metrics written down plainly from their formulas, one loop each: the oracle of the curve tests.

Nothing here is shared with the product, and nothing is fast.
"""

from __future__ import annotations


def reference(p: list[float], convention: str, label: str | None = None, eps: float = 0.005) -> dict[str, object]:
    """All metrics of one curve; None where one does not apply."""
    n = len(p)
    mp = max(p)
    series = p if convention == "paper" else [0.0, *p]
    tv = 0.0
    still = 0
    for t in range(1, len(series)):
        step = abs(series[t] - series[t - 1])
        tv += step
        if step < eps:
            still += 1
    stagnation = still / (len(series) - 1) if len(series) > 1 else 0.0

    drawdowns = [max(p[: t + 1]) - p[t] for t in range(n)]
    area = sum(drawdowns) / n
    cra = area if convention == "toolkit-1.0" else (area / mp if mp > 0 else 0.0)

    peak = p[-1] if convention == "toolkit-1.0" else mp
    floor = 0.0 if convention == "paper" else 1e-9
    ppl = min(1.0, max(0.0, peak * peak / tv)) if tv > floor else 0.0

    threshold = 1.0 if convention == "toolkit-1.0" else 0.99
    success = label == "success" if label is not None else mp >= threshold

    deepest = max(drawdowns)
    at = drawdowns.index(deepest)
    drr = fns = sqs = None
    if convention != "toolkit-1.0":
        regained = max(p[at:]) - p[at]
        if convention == "paper" and deepest > 0:
            drr = min(1.0, regained / deepest)
        if convention == "toolkit" and deepest > 1e-12:
            drr = min(1.0, (regained + 1e-6) / (deepest + 1e-6))
        if success:
            sqs = 0.5 * ppl + 0.3 * (1 - cra) + 0.2 * (1 - stagnation)
        else:
            fns = 0.5 * mp + 0.3 * (mp >= 0.75) + 0.2 * (mp >= 0.5)
    return {
        "samples": n,
        "success": success,
        "success_from": "progress" if label is None else "label",
        "mp": mp,
        "mc25": mp >= 0.25,
        "mc50": mp >= 0.5,
        "mc75": mp >= 0.75,
        "mc100": mp >= 1.0,
        "tv": tv,
        "ppl": ppl,
        "cra": cra,
        "str": stagnation,
        "max_drawdown": deepest,
        "max_drawdown_index": at,
        "drr": drr,
        "fns": fns,
        "sqs": sqs,
    }
