"""The engine: perception and monitor, the episode's life cycle, and both composed for offline use."""
