"""Which runtimes ours is measured beside."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.support.models import ROOT

ENVIRONMENTS = ROOT / "build" / "peers"
_SERVERS = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Peer:
    """A runtime by its name, and what a reader of its figures should know.

    `folded`: it gets the model with constants folded by onnxruntime, because it refuses arithmetic on shapes.
    """

    name: str
    note: str
    folded: bool = False

    @property
    def python(self) -> Path:
        """The interpreter of its environment."""
        return ENVIRONMENTS / self.name / "bin" / "python"

    @property
    def script(self) -> Path:
        """Its server."""
        return _SERVERS / f"serve_{self.name}.py"


@dataclass(frozen=True, slots=True)
class Ours(Peer):
    """Our engine under any name, each run drawn out by the share `slower`: for trying the regression gate."""

    slower: float = 0.0

    @property
    def python(self) -> Path:
        """The farm's own interpreter."""
        return Path(sys.executable)

    @property
    def script(self) -> Path:
        """Its server."""
        return _SERVERS / "serve_ours.py"


OURS = Ours("ours", "the engine of a payload, in the farm's own environment")
PEERS = (
    Peer("onnxruntime", "all optimisations, memory bound"),
    Peer("openvino", "float32, one stream, latency hint"),
    Peer("iree", "this processor, O3", folded=True),
    Peer("tvm", "Relax's own passes, not tuned", folded=True),
)
NOT_APPLICABLE: Mapping[str, str] = {"litert": "it takes TFLite models, of which none is compiled yet"}
"""Runtimes that are asked for and that no model here suits."""
