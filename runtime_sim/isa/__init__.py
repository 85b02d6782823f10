"""The instruction set: one table, and everything derived from it."""

from __future__ import annotations
