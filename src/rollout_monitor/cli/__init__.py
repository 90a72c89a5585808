"""The command line: one module per command, which adds itself to the application in `main`."""
