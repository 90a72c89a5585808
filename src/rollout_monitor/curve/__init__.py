"""The progress curve of an attempt and its OPD metrics (PRM-as-a-Judge 1.5).

`opd` computes the metrics (batch and streaming), `settings` holds every threshold and weight, `smoothing` the live
and the final smoothing, `source` turns model output and files into curves, `aggregate` sums up many rollouts.
"""

from rollout_monitor.curve.opd import OpdArrays, StreamingOpd, compute, compute_many, prefixes
from rollout_monitor.curve.settings import CONVENTIONS, Convention, OpdSettings
from rollout_monitor.curve.smoothing import CausalSmoother, smooth_final

__all__ = [
    "CONVENTIONS",
    "CausalSmoother",
    "Convention",
    "OpdArrays",
    "OpdSettings",
    "StreamingOpd",
    "compute",
    "compute_many",
    "prefixes",
    "smooth_final",
]
