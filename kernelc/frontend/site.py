"""Where in the model an error lies, told without trusting any text of the model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from kernelc.media.call import Illegal, TooLarge, Undetermined
from kernelfarm.errors import Code, FarmError

_SHOWN = 80


def shown(text: str) -> str:
    """A name of the model for a message: quoted, escaped to ASCII, cut after 80 characters."""
    return json.dumps(text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "...")


@dataclass(frozen=True, slots=True)
class Site:
    """A node of the model: place in the file, name, operator, domain ("" is ONNX's own), operator set version."""

    index: int
    name: str
    operator: str
    domain: str
    opset: int

    def __str__(self) -> str:
        name = f" {shown(self.name)}" if self.name else ""
        domain = f"{shown(self.domain)} " if self.domain else ""
        return f"node {self.index}{name} ({domain}{shown(self.operator)[1:-1]}, opset {self.opset})"

    @property
    def detail(self) -> dict[str, Any]:
        """The same for machines."""
        return {
            "node": self.index,
            "name": self.name[:_SHOWN],
            "operator": self.operator[:_SHOWN],
            "domain": self.domain[:_SHOWN],
            "opset": self.opset,
        }

    def error(self, code: Code, why: str, next_step: str = "") -> FarmError:
        """An error about this node."""
        return FarmError(code, f"{self}: {code.title}", why, next_step, detail=self.detail)

    def invalid(self, why: str) -> FarmError:
        """The node breaks ONNX's rules."""
        return self.error(Code.GRAPH_INVALID, why)

    def unsupported(self, why: str) -> FarmError:
        """The node is legal ONNX that this compiler does not take."""
        return self.error(Code.OPERATOR_FORM_UNSUPPORTED, why)

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Turn what the type rules raise into an error about this node."""
        try:
            yield
        except Illegal as reason:
            raise self.invalid(str(reason)) from reason
        except Undetermined as reason:
            raise self.error(
                Code.SHAPE_NOT_INFERRED, str(reason), "Give the shapes of all inputs with --shape NAME=..."
            ) from reason
        except TooLarge as reason:
            raise self.error(Code.MODEL_TOO_LARGE, str(reason)) from reason
