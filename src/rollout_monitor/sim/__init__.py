"""Simulated cells that make real rollouts: physics, cameras, scripted experts and ground truth.

`tabletop` makes data sets: many tasks, arms, looks and failures, see docs/simulation.md. `cell` is the one UR5e of the
live demo, with its two cubes. Both need the extra [sim] (see ``scripts/install_sim.sh``); nothing here is imported by
the live monitor.
"""
