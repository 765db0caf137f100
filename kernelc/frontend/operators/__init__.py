"""One handler per ONNX operator and operator set version: a node of the model becomes nodes of the Media dialect."""

from __future__ import annotations

from kernelc.frontend.operators import data, elementwise, linear, reductions, resampling, windows
from kernelc.frontend.operators.registry import handler_of, supported

__all__ = ["data", "elementwise", "handler_of", "linear", "reductions", "resampling", "supported", "windows"]
