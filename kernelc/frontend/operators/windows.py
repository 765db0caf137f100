"""ONNX operators that slide a window: convolution and pooling, in two dimensions."""

from __future__ import annotations

from kernelc.frontend.operators.registry import NodeImport, operator
from kernelc.graph import AttrValue
from kernelfarm.errors import Code

_RANK = 2


def _list(node: NodeImport, name: str, default: tuple[int, ...]) -> tuple[int, ...]:
    value = node.attributes.integers(name, default)
    if len(value) != len(default):
        raise node.site.invalid(f"{name} has {len(value)} numbers; it must have {len(default)}")
    return value


def _image(node: NodeImport, name: str) -> None:
    rank = len(node.tensor(name).shape)
    if rank != _RANK + 2:
        raise node.site.unsupported(f"the input has rank {rank}; only images N,C,H,W are supported")


def _window(node: NodeImport, value: str, kernel: tuple[int, ...], *, dilated: bool) -> dict[str, AttrValue]:
    """Strides, dilations and pads, the latter computed where `auto_pad` asks for it."""
    strides = _list(node, "strides", (1,) * _RANK)
    dilations = _list(node, "dilations", (1,) * _RANK) if dilated else (1,) * _RANK
    if min(*strides, *dilations) < 1:
        raise node.site.invalid("a stride or dilation is not positive")
    mode = node.attributes.text("auto_pad", "NOTSET")
    pads = _list(node, "pads", (0,) * (2 * _RANK))
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        pads = _same_pads(node, value, kernel, strides, dilations, upper=mode == "SAME_UPPER")
    elif mode == "VALID":
        pads = (0,) * (2 * _RANK)
    elif mode != "NOTSET":
        raise node.site.invalid("auto_pad is not one of NOTSET, VALID, SAME_UPPER, SAME_LOWER")
    if min(pads) < 0:
        raise node.site.unsupported("a pad is negative")
    return {"strides": strides, "pads": pads, "dilations": dilations}


def _same_pads(
    node: NodeImport,
    value: str,
    kernel: tuple[int, ...],
    strides: tuple[int, ...],
    dilations: tuple[int, ...],
    *,
    upper: bool,
) -> tuple[int, ...]:
    """Pads that make the result ceil(size / stride) large; an odd one goes to the end for SAME_UPPER."""
    before, after = [], []
    for index, size in enumerate(node.tensor(value).shape[2:]):
        reach = (kernel[index] - 1) * dilations[index]
        if isinstance(size, int):
            count = -(-size // strides[index])
            total = max((count - 1) * strides[index] + reach + 1 - size, 0)
        elif strides[index] == 1:
            total = reach
        else:
            why = f"auto_pad with stride {strides[index]} over the symbolic size {size}"
            raise node.site.error(Code.SHAPE_NOT_INFERRED, why, "Give the shapes of all inputs with --shape NAME=...")
        small, large = total // 2, total - total // 2
        before.append(small if upper else large)
        after.append(large if upper else small)
    return (*before, *after)


@operator("Conv", 1)
def conv(node: NodeImport) -> str:
    """`kernel_shape`, where given, must be that of the weight."""
    value, weight, bias = node.operands(2, 3)
    assert value is not None and weight is not None
    _image(node, value)
    sizes = node.tensor(weight).shape
    if len(sizes) != _RANK + 2 or not node.tensor(weight).is_static:
        raise node.site.invalid("the weight must be O,C,KH,KW of known sizes")
    kernel = node.tensor(weight).static_shape[2:]
    if _list(node, "kernel_shape", kernel) != kernel:
        raise node.site.invalid(f"kernel_shape is not that of the weight, {list(kernel)}")
    attrs = _window(node, value, kernel, dilated=True) | {"group": node.attributes.integer("group", 1)}
    return node.emit("conv", [value, weight] + ([bias] if bias is not None else []), attrs)


@operator("ConvTranspose", 1)
def conv_transpose(node: NodeImport) -> str:
    """`output_shape` and `auto_pad` become pads and output padding."""
    value, weight, bias = node.operands(2, 3)
    assert value is not None and weight is not None
    _image(node, value)
    sizes = node.tensor(weight).shape
    if len(sizes) != _RANK + 2 or not node.tensor(weight).is_static:
        raise node.site.invalid("the weight must be C,O,KH,KW of known sizes")
    kernel = node.tensor(weight).static_shape[2:]
    if _list(node, "kernel_shape", kernel) != kernel:
        raise node.site.invalid(f"kernel_shape is not that of the weight, {list(kernel)}")
    strides, dilations = (_list(node, name, (1,) * _RANK) for name in ("strides", "dilations"))
    if min(*strides, *dilations) < 1:
        raise node.site.invalid("a stride or dilation is not positive")
    padding = _list(node, "output_padding", (0,) * _RANK)
    mode = node.attributes.text("auto_pad", "NOTSET")
    if mode not in ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"):
        raise node.site.invalid("auto_pad is not one of NOTSET, VALID, SAME_UPPER, SAME_LOWER")
    pads = _list(node, "pads", (0,) * (2 * _RANK))
    wanted = node.attributes.optional_integers("output_shape")
    if wanted is not None and len(wanted) == _RANK + 2:
        wanted = wanted[2:]  # some exporters write all four sizes
    if wanted is not None and len(wanted) != _RANK:
        raise node.site.invalid(f"output_shape has {len(wanted)} numbers; it must have {_RANK}")
    if min(padding) < 0 or (mode == "NOTSET" and wanted is None and min(pads) < 0):
        raise node.site.unsupported("a pad is negative")
    if wanted is not None or mode.startswith("SAME"):
        reaches = tuple((kernel[axis] - 1) * dilations[axis] + 1 + padding[axis] for axis in range(_RANK))
        pads, more = _transposed_pads(node, value, strides, reaches, wanted, mode)
        padding = tuple(one + other for one, other in zip(padding, more, strict=True))
    elif mode == "VALID":
        pads = (0,) * (2 * _RANK)
    attrs = {"strides": strides, "pads": pads, "dilations": dilations, "output_padding": padding}
    operands = [value, weight] + ([bias] if bias is not None else [])
    return node.emit("conv_transpose", operands, attrs | {"group": node.attributes.integer("group", 1)})


def _transposed_pads(
    node: NodeImport,
    value: str,
    strides: tuple[int, ...],
    reaches: tuple[int, ...],
    wanted: tuple[int, ...] | None,
    mode: str,
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Pads and additional output padding that make the result `wanted` large, or size * stride.

    What is too much is cut at both sides, the larger half at the end for SAME_UPPER and at the start otherwise. What is
    missing comes at the end, but under SAME it is a negative pad, halved downwards, as in ONNX's reference.
    """
    before, after, more = [], [], []
    for axis, size in enumerate(node.tensor(value).shape[2:]):
        if isinstance(size, int):
            total = strides[axis] * (size - 1) + reaches[axis] - (wanted[axis] if wanted else strides[axis] * size)
        elif wanted is None:
            total = reaches[axis] - strides[axis]
        else:
            why = f"output_shape over the symbolic size {size}"
            raise node.site.error(Code.SHAPE_NOT_INFERRED, why, "Give the shapes of all inputs with --shape NAME=...")
        same = mode.startswith("SAME")
        cut = total if same else max(total, 0)
        small, large = cut // 2, cut - cut // 2
        before.append(small if mode == "SAME_UPPER" else large)
        after.append(large if mode == "SAME_UPPER" else small)
        more.append(0 if same else max(-total, 0))
    return (*before, *after), tuple(more)


def _pool(node: NodeImport, op: str, *, dilated: bool, ceil: bool) -> str:
    (value,) = node.required(1)
    _image(node, value)
    kernel = node.attributes.integers("kernel_shape")
    if len(kernel) != _RANK:
        raise node.site.invalid(f"kernel_shape has {len(kernel)} numbers; it must have {_RANK}")
    attrs = _window(node, value, kernel, dilated=dilated)
    attrs |= {"kernel": kernel, "ceil_mode": node.attributes.integer("ceil_mode", 0) if ceil else 0}
    if op == "average_pool":
        attrs["count_include_pad"] = node.attributes.integer("count_include_pad", 0)
    return node.emit(op, [value], attrs)


@operator("MaxPool", 1)
def max_pool_1(node: NodeImport) -> str:
    """`storage_order` (8) concerns the second output, which is refused where it is used."""
    if node.site.opset >= 8:
        node.attributes.ignore("storage_order")
    return _pool(node, "max_pool", dilated=node.site.opset >= 10, ceil=node.site.opset >= 10)


@operator("AveragePool", 7)
def average_pool_7(node: NodeImport) -> str:
    """`ceil_mode` came with operator set 10, `dilations` with 19."""
    return _pool(node, "average_pool", dilated=node.site.opset >= 19, ceil=node.site.opset >= 10)


@operator("GlobalAveragePool", 1)
def global_average_pool(node: NodeImport) -> str:
    """Mean over all spatial dimensions."""
    return node.emit("global_average_pool", node.required(1))
