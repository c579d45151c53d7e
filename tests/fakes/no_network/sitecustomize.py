"""Read by Python at its start when this folder is on PYTHONPATH: refuses the network to kernels and subprocesses."""

import sys

import network_guard

network_guard.refuse_network()
sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment] # see tests/conftest.py
