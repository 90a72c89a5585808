"""A simulated UR5e cell that makes real rollouts: physics, cameras, scripted experts and ground truth.

Needs the extra [sim] (see ``scripts/install_sim.sh``). Nothing here is imported by the live monitor.
"""
