"""Benchmarks, run by hand: `python -m tests.benchmarks.loop`. They measure side by side, in one run, and write RESULTS.md."""
