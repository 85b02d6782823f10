"""Measurements behind docs/results.md; run one with `python -m benchmarks.NAME [--quick]`."""
