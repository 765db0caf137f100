"""Writes architectures with random weights as ONNX files: `python export_models.py FOLDER [NAME...]`.

Runs in the environment build/peers/export, the only one with torch. The same file each time on every processor:
weights are raw bits of a fixed generator times a bound, and BatchNorm's statistics, which come of a calibration in
float64, are rounded to 16 bits, far above what processors differ by. What is tried: `make bench-models`.
"""

from __future__ import annotations

import functools
import math
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import onnx
import torch
from torch import nn

OPSET = 17
CALIBRATION = 8
"""Seeded inputs that BatchNorm's mean and variance are taken of."""
_ROUND = 1 << 16

_operators = torch.library.Library("torchvision", "DEF")  # torchvision's own are built for a GPU and not needed
for _name in ("nms", "qnms"):  # those that it looks for as it is imported
    _operators.define(f"{_name}(Tensor boxes, Tensor scores, float limit) -> Tensor")


class Espcn(nn.Module):
    """Shi et al. 2016, table 1: 5x5 to 64, 3x3 to 32, 3x3 to 3 r^2, with tanh between, and a pixel shuffle by r."""

    def __init__(self, scale: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 64, 5, padding=2)
        self.second = nn.Conv2d(64, 32, 3, padding=1)
        self.third = nn.Conv2d(32, 3 * scale * scale, 3, padding=1)
        self.shuffle = nn.PixelShuffle(scale)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[N, 3, H, W] to [N, 3, rH, rW]."""
        x = torch.tanh(self.first(x))
        x = torch.tanh(self.second(x))
        shuffled: torch.Tensor = self.shuffle(self.third(x))
        return shuffled


class OneOutput(nn.Module):
    """A torchvision segmentation model, which answers a dictionary, with its one map of scores."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scores [N, classes, H, W]."""
        scores: torch.Tensor = self.inner(x)["out"]
        return scores


def _mobilenet(size: str) -> nn.Module:
    import timm

    made: nn.Module = timm.create_model(f"mobilenetv3_{size}_100", pretrained=False)
    return made


def _lraspp() -> nn.Module:
    from torchvision.models.segmentation import lraspp_mobilenet_v3_large

    return OneOutput(lraspp_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=21))


def _srvgg() -> nn.Module:
    from spandrel.architectures.Compact.__arch.SRVGG import SRVGGNetCompact

    made: nn.Module = SRVGGNetCompact(num_feat=64, num_conv=16, upscale=4, act_type="prelu")
    return made


def _rrdb() -> nn.Module:
    from spandrel.architectures.ESRGAN.__arch.RRDB import RRDBNet

    made: nn.Module = RRDBNet(num_filters=32, num_blocks=2, scale=2)
    return made


MODELS: Mapping[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "mobilenetv3_small": (functools.partial(_mobilenet, "small"), (1, 3, 224, 224)),
    "mobilenetv3_large": (functools.partial(_mobilenet, "large"), (1, 3, 224, 224)),
    "espcn_x3": (functools.partial(Espcn, 3), (1, 3, 180, 320)),
    "srvgg_x4": (_srvgg, (1, 3, 90, 160)),
    "rrdb_small_x2": (_rrdb, (1, 3, 64, 64)),
    "lraspp_mobilenetv3": (_lraspp, (1, 3, 224, 224)),
}
"""What makes each, and the shape of its input."""


def export(name: str, folder: Path) -> Path:
    """The file of one, in `folder`."""
    make, shape = MODELS[name]
    model = make().eval()
    _draw_weights(model, zlib.crc32(name.encode()))
    _calibrate(model, shape)
    path = folder / f"{name}.onnx"
    example = torch.zeros(shape)
    with torch.no_grad():
        torch.onnx.export(
            model, (example,), str(path), opset_version=OPSET, input_names=["x"], output_names=["y"], dynamo=False
        )
    _forget_where(path)
    return path


def _forget_where(path: Path) -> None:
    """Take out the names of source files and lines that the exporter leaves."""
    proto = onnx.load(path)
    for node in proto.graph.node:
        node.ClearField("doc_string")
        node.ClearField("metadata_props")
    path.write_bytes(proto.SerializeToString(deterministic=True))


def _draw_weights(model: nn.Module, seed: int) -> None:
    """He's uniform bound for weights of several dimensions, others near the value that does nothing."""
    draws = np.random.Generator(np.random.PCG64(seed))
    for name, parameter in sorted(model.named_parameters()):
        drawn = 2 * draws.random(tuple(parameter.shape), dtype=np.float32) - 1
        if parameter.dim() > 1:
            value = drawn * np.float32(math.sqrt(6 / parameter[0].numel()))
        else:
            value = _middle(model, name) + drawn * np.float32(0.1)
        parameter.data = torch.from_numpy(value)


def _middle(model: nn.Module, name: str) -> np.float32:
    owner, _, kind = name.rpartition(".")
    module = model.get_submodule(owner)
    if isinstance(module, nn.PReLU):
        return np.float32(0.25)
    return np.float32(kind == "weight" and isinstance(module, nn.BatchNorm2d))


def _calibrate(model: nn.Module, shape: tuple[int, ...]) -> None:
    """Mean and variance of each BatchNorm over seeded inputs, in float64."""
    norms = [module for module in model.modules() if isinstance(module, nn.BatchNorm2d)]
    if not norms:
        return
    model.double().train()
    for norm in norms:
        norm.momentum = None  # the plain average of all batches
        norm.reset_running_stats()
    _without_dropout(model)
    draws = np.random.Generator(np.random.PCG64(1))
    with torch.no_grad():
        for _ in range(CALIBRATION):
            model(torch.from_numpy(2 * draws.random((4, *shape[1:])) - 1))
    model.float().eval()
    for norm in norms:
        norm.running_mean = _rounded(norm.running_mean)
        norm.running_var = _rounded(norm.running_var)


def _without_dropout(model: nn.Module) -> None:
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.eval()


def _rounded(values: torch.Tensor | None) -> torch.Tensor:
    assert values is not None
    fraction, exponent = np.frexp(values.double().numpy())
    return torch.from_numpy(np.ldexp(np.round(fraction * _ROUND) / _ROUND, exponent).astype(np.float32))


def _exported(names: list[str], folder: Path) -> Iterator[Path]:
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    for name in names or sorted(MODELS):
        yield export(name, folder)


if __name__ == "__main__":
    for written in _exported(sys.argv[2:], Path(sys.argv[1])):
        print(written)
