"""What all nodes share: quality of service, spinning and stopping, parameters, conversion, diagnostics."""
