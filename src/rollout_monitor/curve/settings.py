"""Every threshold and weight behind the OPD metrics, and what the three conventions do differently.

`Rules` is what a convention fixes; `OpdSettings` is what a user may choose. Nothing else in this room holds a
number that changes a metric.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, model_validator

Convention = Literal["paper", "toolkit", "toolkit-1.0"]
CONVENTIONS: tuple[Convention, ...] = get_args(Convention)

MILESTONES = (0.25, 0.50, 0.75, 1.00)  # of MC@25, MC@50, MC@75, MC@100

# Seconds. The paper smooths with a Gaussian but gives no width. `smoothing.pick_sigma_s` chose this one on the 40
# validation rollouts of the embedded model's data (5 Hz): mean absolute error against the true progress 0.0496, with
# 0.0504 unsmoothed and 0.0542 at 0.5 s, which flattens a short drop. At the paper's 1 frame per second it does nothing.
DEFAULT_FINAL_SIGMA_S = 0.1
# Seconds. A lag costs the operator time: on the same rollouts the error is 0.0532 at 0.2 s and 0.0706 at 0.5 s. One
# sample of a 5 Hz model is enough to keep a single outlier from moving the drawdown; the rest is the debounce's work.
DEFAULT_LIVE_TAU_S = 0.2


@dataclass(frozen=True)
class Rules:
    """What one convention fixes.

    Attributes:
        leading_zero: the series gets a 0 in front before differences are taken (path length and stagnation).
        path_floor: PPL is 0 where the total variation is not above this.
        drawdown_floor: DRR exists only where the largest drawdown is above this.
        recovery_guard: added above and below the line of DRR.
        peak_efficiency: PPL uses the maximum progress; otherwise the last value.
        relative_regret: CRA is divided by the maximum progress.
        diagnoses: DRR, FNS and SQS exist at all.
        success_threshold: progress from which an unlabelled rollout counts as a success.
    """

    leading_zero: bool
    path_floor: float
    drawdown_floor: float
    recovery_guard: float
    peak_efficiency: bool
    relative_regret: bool
    diagnoses: bool
    success_threshold: float


RULES: dict[Convention, Rules] = {
    "paper": Rules(
        leading_zero=False,
        path_floor=0.0,
        drawdown_floor=0.0,
        recovery_guard=0.0,
        peak_efficiency=True,
        relative_regret=True,
        diagnoses=True,
        success_threshold=0.99,
    ),
    "toolkit": Rules(
        leading_zero=True,
        path_floor=1e-9,
        drawdown_floor=1e-12,
        recovery_guard=1e-6,
        peak_efficiency=True,
        relative_regret=True,
        diagnoses=True,
        success_threshold=0.99,
    ),
    "toolkit-1.0": Rules(
        leading_zero=True,
        path_floor=1e-9,
        drawdown_floor=1e-12,
        recovery_guard=0.0,
        peak_efficiency=False,
        relative_regret=False,
        diagnoses=False,
        success_threshold=1.0,
    ),
}


class OpdSettings(BaseModel):
    """Settings of the OPD metrics; frozen, validated, flat (its dump goes into the report as it is).

    Raises:
        pydantic.ValidationError: a value out of range, or weights that do not add up to 1.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    convention: Convention = Field(default="paper", description="whose definitions of the metrics")
    eps: float = Field(default=0.005, ge=0.0, le=1.0, description="a step smaller than this is stagnant (strict)")
    success_threshold: float = Field(
        default=0.99, gt=0.0, le=1.0, description="unlabelled success from this MP; 1.0 in toolkit-1.0 unless given"
    )
    fns_mp: float = Field(default=0.5, ge=0.0, description="weight of MP in FNS")
    fns_mc75: float = Field(default=0.3, ge=0.0, description="weight of MC@75 in FNS")
    fns_mc50: float = Field(default=0.2, ge=0.0, description="weight of MC@50 in FNS")
    sqs_ppl: float = Field(default=0.5, ge=0.0, description="weight of PPL in SQS")
    sqs_cra: float = Field(default=0.3, ge=0.0, description="weight of 1 - CRA in SQS")
    sqs_str: float = Field(default=0.2, ge=0.0, description="weight of 1 - STR in SQS")
    final_sigma_s: float = Field(
        default=DEFAULT_FINAL_SIGMA_S, ge=0.0, description="sigma of the final Gaussian, seconds; 0 is none (paper)"
    )
    live_tau_s: float = Field(
        default=DEFAULT_LIVE_TAU_S, ge=0.0, description="time constant of the live smoothing, seconds; 0 is none"
    )

    @model_validator(mode="before")
    @classmethod
    def _fill_convention_defaults(cls, data: Any) -> Any:
        """The success threshold's default belongs to the convention."""
        if isinstance(data, dict) and "success_threshold" not in data:
            rules = RULES.get(data.get("convention", "paper"))
            if rules is not None:
                return {**data, "success_threshold": rules.success_threshold}
        return data

    @model_validator(mode="after")
    def _weights_add_up(self) -> OpdSettings:
        for name, total in (
            ("fns_mp + fns_mc75 + fns_mc50", self.fns_mp + self.fns_mc75 + self.fns_mc50),
            ("sqs_ppl + sqs_cra + sqs_str", self.sqs_ppl + self.sqs_cra + self.sqs_str),
        ):
            if abs(total - 1.0) > 1e-9:
                raise ValueError(f"{name} must be 1 so that the score stays within 0..1, but it is {total:g}")
        return self

    @property
    def rules(self) -> Rules:
        """What the convention fixes."""
        return RULES[self.convention]

    @classmethod
    def for_convention(cls, name: Convention) -> OpdSettings:
        """The documented defaults of a convention: ``paper``, ``toolkit`` or ``toolkit-1.0``."""
        return cls(convention=name)


DEFAULT = OpdSettings()
