"""Fusion: which nodes become one kernel, by rules, and why others do not."""

from __future__ import annotations

from kernelc.fusion.grouping import FusionResult, Refusal, group, to_text
from kernelc.fusion.library import builtin, joined, load, to_json
from kernelc.fusion.rule import Rule

__all__ = ["FusionResult", "Refusal", "Rule", "builtin", "group", "joined", "load", "to_json", "to_text"]
