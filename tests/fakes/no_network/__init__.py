"""Refuses the network: `network_guard` in this process, `sitecustomize` in kernels and other subprocesses."""
