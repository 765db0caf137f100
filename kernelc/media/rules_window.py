"""Type rules of operations that slide a window over an image."""

from __future__ import annotations

from kernelc.media.call import Call, Illegal, Rule, Shape, Undetermined, require, shape_text
from kernelc.symbols import Dim, add, ceil_divide, floor_divide, multiply, subtract


def window_sizes(
    sizes: Shape,
    kernel: tuple[int, ...],
    strides: tuple[int, ...],
    pads: tuple[int, ...],
    dilations: tuple[int, ...],
    *,
    ceil_mode: bool = False,
) -> Shape:
    """Spatial sizes of the result: floor((size + pads - dilation * (kernel - 1) - 1) / stride) + 1, or the ceiling.

    With `ceil_mode` a window that would start in the padding after the end is left out (ONNX opset 22, AveragePool).
    """
    rank = len(kernel)
    axes = zip(sizes, kernel, strides, pads[:rank], pads[rank:], dilations, strict=True)
    return tuple(
        _window_size(size, dilation * (taps - 1) + 1, stride, before, after, ceil_mode)
        for size, taps, stride, before, after, dilation in axes
    )


def _window_size(size: Dim, reach: int, stride: int, before: int, after: int, ceil_mode: bool) -> Dim:
    room = subtract(add(size, before + after), reach)
    if isinstance(room, int) and room < 0:
        raise Illegal(f"a window of {reach} does not fit into {size} with pads {before}+{after}")
    if not ceil_mode:
        return add(floor_divide(room, stride), 1)
    count = add(ceil_divide(room, stride), 1)
    if isinstance(count, int) and isinstance(size, int):
        return count - 1 if (count - 1) * stride >= size + before else count
    if after >= stride or room != multiply(stride, floor_divide(room, stride)):
        raise Undetermined("ceil_mode over a symbolic size")
    return count


def _conv(call: Call) -> tuple[str, Shape]:
    value, weight, *bias = call.tensors
    require(all(tensor.dtype == value.dtype for tensor in call.tensors), "operands must have the same element type")
    require(len(value.shape) == 4, f"x must be N,C,H,W, not {shape_text(value.shape)}")
    require(len(weight.shape) == 4 and weight.is_static, f"w must be O,C,KH,KW, not {shape_text(weight.shape)}")
    outputs, depth, *kernel = weight.static_shape
    group = call.node.integer("group")
    require(min(weight.static_shape) > 0, f"w is empty: {shape_text(weight.shape)}")
    require(outputs % group == 0, f"{outputs} output channels do not divide into {group} groups")
    channels = value.shape[1]
    if not isinstance(channels, int):
        raise Undetermined(f"the number of channels is {channels}")
    require(channels == depth * group, f"x has {channels} channels; w and group ask for {depth * group}")
    for tensor in bias:
        require(tensor.shape == (outputs,), f"b is {shape_text(tensor.shape)}; it must be {outputs}")
    node = call.node
    spatial = window_sizes(
        value.shape[2:], tuple(kernel), node.integers("strides"), node.integers("pads"), node.integers("dilations")
    )
    return value.dtype, (value.shape[0], outputs, *spatial)


def _conv_transpose(call: Call) -> tuple[str, Shape]:
    value, weight, *bias = call.tensors
    require(all(tensor.dtype == value.dtype for tensor in call.tensors), "operands must have the same element type")
    require(len(value.shape) == 4, f"x must be N,C,H,W, not {shape_text(value.shape)}")
    require(len(weight.shape) == 4 and weight.is_static, f"w must be C,O,KH,KW, not {shape_text(weight.shape)}")
    channels, depth, *kernel = weight.static_shape
    node = call.node
    group = node.integer("group")
    require(min(weight.static_shape) > 0, f"w is empty: {shape_text(weight.shape)}")
    require(channels % group == 0, f"{channels} input channels do not divide into {group} groups")
    require(value.shape[1] == channels, f"x has {value.shape[1]} channels; w asks for {channels}")
    for tensor in bias:
        require(tensor.shape == (depth * group,), f"b is {shape_text(tensor.shape)}; it must be {depth * group}")
    spatial = transposed_sizes(
        value.shape[2:], tuple(kernel), node.integers("strides"), node.integers("pads"), node.integers("dilations"),
        node.integers("output_padding"),
    )  # fmt: skip
    return value.dtype, (value.shape[0], depth * group, *spatial)


def transposed_sizes(
    sizes: Shape,
    kernel: tuple[int, ...],
    strides: tuple[int, ...],
    pads: tuple[int, ...],
    dilations: tuple[int, ...],
    output_padding: tuple[int, ...],
) -> Shape:
    """stride * (size - 1) + dilation * (kernel - 1) + 1 + output padding - pads (ONNX ConvTranspose)."""
    rank = len(kernel)
    axes = zip(sizes, kernel, strides, pads[:rank], pads[rank:], dilations, output_padding, strict=True)
    found = tuple(
        add(multiply(stride, subtract(size, 1)), dilation * (taps - 1) + 1 + more - before - after)
        for size, taps, stride, before, after, dilation, more in axes
    )
    for size in found:
        require(not isinstance(size, int) or size > 0, "the pads leave no result")
    return found


def _pool(call: Call) -> tuple[str, Shape]:
    value = call.tensors[0]
    require(len(value.shape) == 4, f"x must be N,C,H,W, not {shape_text(value.shape)}")
    node = call.node
    kernel, dilations, pads = node.integers("kernel"), node.integers("dilations"), node.integers("pads")
    for index, pad in enumerate(pads):
        reach = (kernel[index % 2] - 1) * dilations[index % 2]
        require(pad <= reach, f"a pad of {pad} is not smaller than the window of {reach + 1}")
    spatial = window_sizes(
        value.shape[2:], kernel, node.integers("strides"), pads, dilations, ceil_mode=bool(node.integer("ceil_mode"))
    )
    return value.dtype, (*value.shape[:2], *spatial)


def _global_pool(call: Call) -> tuple[str, Shape]:
    value = call.tensors[0]
    require(len(value.shape) >= 3, "x must have a spatial dimension")
    require(all(size != 0 for size in value.shape), "x is empty")
    return value.dtype, (*value.shape[:2], *(1 for _ in value.shape[2:]))


RULES: dict[str, Rule] = {
    "average_pool": _pool,
    "conv": _conv,
    "conv_transpose": _conv_transpose,
    "global_average_pool": _global_pool,
    "max_pool": _pool,
}
