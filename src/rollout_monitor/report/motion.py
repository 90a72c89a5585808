"""The rows of the motion section: figures with their meaning, and each joint with its plots."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rollout_monitor.records import EpisodeReport, MotionFigures
from rollout_monitor.report import wording
from rollout_monitor.report.drawing import JointPlots


def motion_rows(motion: MotionFigures | None) -> list[tuple[str, str, str, str]]:
    """(name, value, unit, meaning) of each figure that is there."""
    if motion is None:
        return []
    rows: list[tuple[str, float | None, str, str]] = [
        ("SPARC", motion.sparc, "", "Smoothness of the joint speed's spectrum; nearer 0 is smoother."),
        ("LDLJ", motion.ldlj, "", "Smoothness from dimensionless jerk; nearer 0 is smoother."),
        ("RMS jerk", motion.rms_jerk, "rad/s³", "Mean abruptness of all joints; lower is smoother."),
        ("Peak speed", motion.peak_speed, "rad/s", "The fastest any joint moved."),
        ("Peak acceleration", motion.peak_acceleration, "rad/s²", "The hardest any joint was accelerated."),
        ("Mean speed", motion.mu_v_si, "rad/s", "Mean joint speed over time and joints."),
        ("U_v", motion.u_v_si, "(rad/s)²", _largest("velocity", motion.worst_joint_v)),
        ("U_a", motion.u_a_si, "(rad/s²)²", _largest("acceleration", motion.worst_joint_a)),
        ("Speed peaks", motion.speed_peaks, "", "Separate bursts of motion; fewer is smoother."),
        ("Reversals", motion.reversals, "", "Times a joint turned back, summed over the joints."),
    ]
    shown = [(name, wording.significant(value), unit, text) for name, value, unit, text in rows if value is not None]
    if motion.idle_fraction is not None:
        shown.append(("Idle", wording.percent(motion.idle_fraction), "", "Share of the time in which no joint moved."))
    return shown


def _largest(what: str, joint: str | None) -> str:
    return f"Largest variance of joint {what}" + (f", that of {joint}." if joint else ".")


def joint_rows(report: EpisodeReport, plots: Mapping[str, JointPlots]) -> list[dict[str, Any]]:
    """Per joint: figures with the length of a bar relative to the worst joint, whether it is that, and its plots."""
    motion = report.motion
    if motion is None:
        return []
    columns = (
        (motion.s_v, motion.worst_joint_v),
        (motion.s_a, motion.worst_joint_a),
        (motion.rms_jerk_per_joint, motion.worst_joint_jerk),
    )
    rows = [
        {
            "joint": joint,
            "cells": [_joint_cell(values, index, worst == joint) for values, worst in columns],
            "plots": plots.get(joint),
            "index": index,
        }
        for index, joint in enumerate(report.joint_names)
    ]
    return rows if plots or any(values for values, _ in columns) else []


def _joint_cell(values: list[float], index: int, worst: bool) -> dict[str, Any] | None:
    """One joint's figure, with a bar as a share of the largest; None where there is no figure."""
    if index >= len(values):
        return None
    largest = max(values) or 1.0
    return {"text": wording.significant(values[index]), "bar": round(100 * values[index] / largest, 1), "worst": worst}
