"""Simulation that makes real rollouts: physics, cameras, a scripted operator and ground truth, see docs/simulation.md.

It needs the extra [sim] (see ``scripts/install_sim.sh``); nothing here is imported by the live monitor.
"""
