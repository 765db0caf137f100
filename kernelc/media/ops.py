"""The one table of Media operations: IRDL text, the verifier, fusion and the docs are all made from it.

To add an operation: a row here, a type rule in `kernelc.media.rules_*`, a meaning in `kernelc.numerics`, an ONNX
handler in `kernelc.frontend.operators`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from kernelc.graph import NUMPY_TYPES

AttrKind = Literal["int", "real", "ints", "text"]
"""An i64, an f64, a list of i64, or a string."""

FLOATS = frozenset({"f16", "f32", "f64"})
INTEGERS = frozenset(NUMPY_TYPES) - FLOATS - {"bool"}
NUMBERS = FLOATS | INTEGERS
ANY = frozenset(NUMPY_TYPES)


@dataclass(frozen=True, slots=True)
class AttrDef:
    """An attribute; all are required. `least` and `most` bound each number, `length` the list, `choices` the string."""

    name: str
    kind: AttrKind
    least: int | None = None
    most: int | None = None
    length: int | None = None
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OpDef:
    """An operation. After required operands come `optional` ones, or any number (>= 1) of `variadic` ones."""

    name: str
    doc: str
    operands: tuple[str, ...] = ("x",)
    optional: tuple[str, ...] = ()
    variadic: str = ""
    attrs: tuple[AttrDef, ...] = ()
    dtypes: frozenset[str] = NUMBERS
    """Element types of the first operand."""
    elementwise: bool = False
    """Each element of the result depends on one element of each operand (after broadcasting)."""
    is_node: bool = True
    """False for the two forms of a constant, which a `Graph` keeps in its weights."""

    @property
    def arity(self) -> tuple[int, int | None]:
        """Least and most number of operands; None for no upper bound."""
        if self.variadic:
            return 1, None
        return len(self.operands), len(self.operands) + len(self.optional)


def _window(*extra: AttrDef) -> tuple[AttrDef, ...]:
    return (
        AttrDef("kernel", "ints", least=1, length=2),
        AttrDef("strides", "ints", least=1, length=2),
        AttrDef("pads", "ints", least=0, length=4),
        AttrDef("dilations", "ints", least=1, length=2),
        AttrDef("ceil_mode", "int", least=0, most=1),
        *extra,
    )


_AXIS = AttrDef("axis", "int", least=0)
COORDINATES = (
    "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_half_pixel_for_nn",
    "tf_crop_and_resize",
)  # fmt: skip
"""How Resize maps an output place to an input place (ONNX coordinate_transformation_mode)."""
ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
_RESIZE = (
    AttrDef("mode", "text", choices=("nearest", "linear", "cubic")),
    AttrDef("coordinates", "text", choices=COORDINATES),
    AttrDef("rounding", "text", choices=ROUNDINGS),
    AttrDef("sizes", "ints", least=1),
    AttrDef("scale_h", "real"),
    AttrDef("scale_w", "real"),
    AttrDef("antialias", "int", least=0, most=1),
    AttrDef("cubic_a", "real"),
    AttrDef("exclude_outside", "int", least=0, most=1),
    AttrDef("crop_top", "real"),
    AttrDef("crop_left", "real"),
    AttrDef("crop_bottom", "real"),
    AttrDef("crop_right", "real"),
    AttrDef("extrapolation", "real"),
)
LAYOUTS = ("NCHW", "NHWC", "NCHWc4", "NCHWc8", "NCHWc16")
"""How the channels of a value lie in memory: apart, all of a pixel side by side, or in blocks of so many."""
_TYPE_NAMES = tuple(sorted(NUMPY_TYPES))

_TABLE = (
    OpDef("weight", "A constant by the digest of its bytes, which stay outside the IR.", (), is_node=False,
          attrs=(AttrDef("digest", "text"),)),
    OpDef("constant", "A small integer list in place.", (), is_node=False, attrs=(AttrDef("value", "ints"),)),
    OpDef("identity", "x.", dtypes=ANY, elementwise=True),
    OpDef("layout_cast", "x, whose channels lie otherwise in memory; the compiler puts it in.",
          dtypes=frozenset({"f32"}), attrs=(AttrDef("layout", "text", choices=LAYOUTS),)),
    OpDef("add", "x + y, broadcast.", ("x", "y"), elementwise=True),
    OpDef("sub", "x - y, broadcast.", ("x", "y"), elementwise=True),
    OpDef("mul", "x * y, broadcast.", ("x", "y"), elementwise=True),
    OpDef("div", "x / y, broadcast; integers round to zero.", ("x", "y"), elementwise=True),
    OpDef("relu", "max(x, 0).", elementwise=True),
    OpDef("leaky_relu", "x where x >= 0, else alpha * x.", elementwise=True, dtypes=FLOATS,
          attrs=(AttrDef("alpha", "real"),)),
    OpDef("prelu", "x where x >= 0, else slope * x; the slope is broadcast to x.", ("x", "slope"), elementwise=True),
    OpDef("clip", "min(max(x, min), max).", elementwise=True, dtypes=FLOATS,
          attrs=(AttrDef("min", "real"), AttrDef("max", "real"))),
    OpDef("clamp", "min(max(x, lo), hi) with scalar operands.", ("x", "lo", "hi"), elementwise=True),
    OpDef("sigmoid", "1 / (1 + exp(-x)).", elementwise=True, dtypes=FLOATS),
    OpDef("tanh", "The hyperbolic tangent of x.", elementwise=True, dtypes=FLOATS),
    OpDef("silu", "x / (1 + exp(-x)).", elementwise=True, dtypes=FLOATS),
    OpDef("sqrt", "The square root of x; not a number below 0.", elementwise=True, dtypes=FLOATS),
    OpDef("hard_sigmoid", "min(max(alpha * x + beta, 0), 1).", elementwise=True, dtypes=FLOATS,
          attrs=(AttrDef("alpha", "real"), AttrDef("beta", "real"))),
    OpDef("hard_swish", "x * min(max(x / 6 + 1 / 2, 0), 1).", elementwise=True, dtypes=FLOATS),
    OpDef("cast", "x as another element type: floats round to nearest even, floats to integers toward zero.",
          elementwise=True, dtypes=ANY, attrs=(AttrDef("to", "text", choices=_TYPE_NAMES),)),
    OpDef("conv", "2-D cross-correlation of x [N,C,H,W] with w [O,C/group,KH,KW], plus b [O]; pads are top, left, "
          "bottom, right.", ("x", "w"), ("b",), dtypes=FLOATS,
          attrs=(AttrDef("strides", "ints", least=1, length=2), AttrDef("pads", "ints", least=0, length=4),
                 AttrDef("dilations", "ints", least=1, length=2), AttrDef("group", "int", least=1))),
    OpDef("conv_transpose", "Transposed conv: element i of x adds x * w[k] to i * stride + k * dilation - pad of the "
          "result; w is [C,O/group,KH,KW], b [O]; output_padding makes it larger at the end, a negative pad "
          "at its side.",
          ("x", "w"), ("b",), dtypes=FLOATS,
          attrs=(AttrDef("strides", "ints", least=1, length=2), AttrDef("pads", "ints", length=4),
                 AttrDef("dilations", "ints", least=1, length=2), AttrDef("group", "int", least=1),
                 AttrDef("output_padding", "ints", least=0, length=2))),
    OpDef("matmul", "Matrix product over the last two dimensions (others broadcast), plus b [N].", ("x", "y"), ("b",)),
    OpDef("batch_norm", "(x - mean) / sqrt(var + epsilon) * scale + bias over the channels (dimension 1).",
          ("x", "scale", "bias", "mean", "var"), dtypes=FLOATS, attrs=(AttrDef("epsilon", "real"),)),
    OpDef("layer_norm", "(x - mean) / sqrt(variance + epsilon), both over the last dimension.", dtypes=FLOATS,
          attrs=(AttrDef("epsilon", "real"),)),
    OpDef("global_average_pool", "Mean of each channel of x [N,C,...]; spatial sizes become 1.", dtypes=FLOATS),
    OpDef("max_pool", "Largest element of each window of x [N,C,H,W]; padding never wins.", attrs=_window()),
    OpDef("average_pool", "Mean of each window of x [N,C,H,W]; padding counts as zeros if count_include_pad.",
          dtypes=FLOATS, attrs=_window(AttrDef("count_include_pad", "int", least=0, most=1))),
    OpDef("reduce_mean", "Mean over the dimensions `axes`, which become 1, or go unless keep_dims.", dtypes=FLOATS,
          attrs=(AttrDef("axes", "ints", least=0), AttrDef("keep_dims", "int", least=0, most=1))),
    OpDef("resize", "x [N,C,H,W] with H and W resampled as ONNX Resize; `sizes` may be empty: size * scale, rounded "
          "down; a scale of 0 is the quotient of the sizes.", dtypes=FLOATS, attrs=_RESIZE),
    OpDef("softmax", "exp(x) / sum(exp(x)) along the axis.", dtypes=FLOATS, attrs=(_AXIS,)),
    OpDef("reshape", "The same elements in row-major order in another shape.", dtypes=ANY,
          attrs=(AttrDef("shape", "ints", least=0),)),
    OpDef("dynamic_reshape", "Reshape to the value of an operand: -1 is the rest, 0 copies unless allow_zero.",
          ("x", "shape"), dtypes=ANY, attrs=(AttrDef("allow_zero", "int", least=0, most=1),)),
    OpDef("flatten", "x as a matrix: dimensions before the axis, and the rest.", dtypes=ANY, attrs=(_AXIS,)),
    OpDef("squeeze", "x without the dimensions `axes`, which are 1.", dtypes=ANY,
          attrs=(AttrDef("axes", "ints", least=0),)),
    OpDef("unsqueeze", "x with new dimensions of 1 at `axes` of the result.", dtypes=ANY,
          attrs=(AttrDef("axes", "ints", least=0),)),
    OpDef("transpose", "Dimension i of the result is dimension permutation[i] of x.", dtypes=ANY,
          attrs=(AttrDef("permutation", "ints", least=0),)),
    OpDef("depth_to_space", "x [N,C,H,W] as [N,C/block^2,H*block,W*block]: a pixel is a square of block x block, its "
          "channels counted [rows, columns, depth] (DCR) or [depth, rows, columns] (CRD).", dtypes=ANY,
          attrs=(AttrDef("block", "int", least=1), AttrDef("mode", "text", choices=("DCR", "CRD")))),
    OpDef("rearrange", "x in another order, as `shape`: element i, in row-major order over `sizes`, is the row-major "
          "element offset + sum of i_k * strides_k of x.", dtypes=ANY,
          attrs=(AttrDef("sizes", "ints", least=1), AttrDef("strides", "ints"), AttrDef("offset", "int", least=0),
                 AttrDef("shape", "ints", least=1))),
    OpDef("shape", "The sizes of x from dimension `start` up to `end`, as i64.", dtypes=ANY,
          attrs=(AttrDef("start", "int", least=0), AttrDef("end", "int", least=0))),
    OpDef("slice", "x from starts to ends by steps along axes, as ONNX Slice.",
          ("x", "starts", "ends", "axes", "steps"), dtypes=ANY),
    OpDef("concat", "The operands one after another along the axis.", (), variadic="x", dtypes=ANY, attrs=(_AXIS,)),
    OpDef("gather", "Slices of x along the axis at the indices; negative ones count from the end.", ("x", "indices"),
          dtypes=ANY, attrs=(_AXIS,)),
)  # fmt: skip

OPS: Mapping[str, OpDef] = {definition.name: definition for definition in _TABLE}
"""All operations by name, without "media."."""

ELEMENTWISE = frozenset(name for name, definition in OPS.items() if definition.elementwise)
"""Names of the element-wise operations."""
