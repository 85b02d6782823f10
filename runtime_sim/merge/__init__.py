"""Merging a stream's commands into whole-layer NumPy calls, each step proven from its views."""
