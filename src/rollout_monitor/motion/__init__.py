"""Joint states to motion figures: a uniform grid, kinematic smoothness live and final, effort spikes.

`stream.JointStream` is the live way in, `figures.figures` the batch one. `grid`, `track` and `antialias` make the grid,
`streaming` and `smoothness` the figures, `effort` the spikes, `csv` reads logs, `text` writes I_phys.
"""

from rollout_monitor.motion.figures import figures
from rollout_monitor.motion.settings import MotionSettings
from rollout_monitor.motion.stream import JointStream
from rollout_monitor.motion.text import i_phys

__all__ = ["JointStream", "MotionSettings", "figures", "i_phys"]
