"""Fusion: which nodes become one kernel, and why others do not."""

from __future__ import annotations

from kernelc.fusion.grouping import FusionResult, Refusal, group, to_text

__all__ = ["FusionResult", "Refusal", "group", "to_text"]
