"""Fills columns of a DataFrame from the web: plan, schedule, store, assemble; see `run` for how they work together."""
