"""Read by Python at its start when this folder is on PYTHONPATH: refuses the network to kernels and subprocesses."""

import network_guard

network_guard.refuse_network()
