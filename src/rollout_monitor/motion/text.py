"""I_phys: the kinematic summary in words, for the prompt of a vision-language judge (Eval-Actions equation 7).

The paper does not give its wording; this one is ours. It is part of what a judge was asked, so changing it changes
judgements: a test holds it fixed.
"""

from __future__ import annotations

from collections.abc import Sequence

from rollout_monitor.errors import InputError
from rollout_monitor.records import MotionFigures


def i_phys(figures: MotionFigures, joint_names: Sequence[str]) -> str:
    """One paragraph with U_v, U_a and mu_v in unit steps, the worst joints, and what the grid was.

    Raises:
        InputError: the motion is too short (three grid rows are needed), or the names do not fit it.
    """
    if figures.u_v is None or figures.u_a is None or figures.mu_v is None:
        raise InputError(f"{figures.samples} grid rows are too few to describe motion; at least 3 are needed")
    if len(joint_names) != len(figures.s_v):
        raise InputError(f"the figures are of {len(figures.s_v)} joints, but {len(joint_names)} names were given")
    # the grid's rate is what makes SI of unit steps; without any motion it cannot be told, and does not matter
    joints = f"{len(joint_names)} joint" + ("" if len(joint_names) == 1 else "s")
    rate = f" at {figures.mu_v_si / figures.mu_v:.0f} Hz" if figures.mu_v and figures.mu_v_si else ""
    return (
        f"Kinematic summary of {joints} over {figures.duration_s:.1f} s{rate}, "
        "in radians per sample: "
        f"worst velocity variance U_v = {figures.u_v:.3e} ({figures.worst_joint_v}); "
        f"worst acceleration variance U_a = {figures.u_a:.3e} ({figures.worst_joint_a}); "
        f"mean absolute velocity mu_v = {figures.mu_v:.3e}. "
        "Larger variances mean less smooth motion."
    )
