"""Writes `kernelc/fusion/rules.json` from the rules: `python -m kernelc.fusion.rules`."""

from __future__ import annotations

from kernelc.fusion import library

library.COMPILED.write_bytes(library.compiled())
