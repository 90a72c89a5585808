"""Progress models behind one protocol: the embedded one, recorded curves, and a registry of names."""
