"""Thin rclpy nodes around the package ``rollout_monitor``: they convert messages, call the core and publish."""
