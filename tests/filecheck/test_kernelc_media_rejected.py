"""Bad media text: every one is rejected with the line and column of its operation."""

from __future__ import annotations

import pytest

from kernelc import media
from kernelfarm.digest import of_bytes
from kernelfarm.errors import Code, FarmError

ZEROS = bytes(4 * 8 * 4 * 3 * 3)
KEY = of_bytes(ZEROS)
IMAGE, VECTOR = "tensor<1x4x6x6xf32>", "tensor<4xf32>"
CONV = "dilations = array<i64: 1, 1>, group = 1 : i64, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1>"
POOL = CONV.replace("group = 1 : i64", "ceil_mode = 0 : i64, kernel = array<i64: 2, 2>")
PORTS = f'(%x: {IMAGE} {{media.name = "x"}}, %v: {VECTOR} {{media.name = "v"}}) -> (IMAGE {{media.name = "y"}})'
LEGAL = f"""func.func @main{PORTS} {{
  %w = "media.weight"() {{digest = "{KEY}"}} : () -> tensor<8x4x3x3xf32>
  %l = "media.constant"() {{value = array<i64: 1, 144>}} : () -> tensor<2xi64>
    OPERATION
  func.return %y : IMAGE
}}"""


def _error(operation: str) -> FarmError:
    operation = operation.replace("IMAGE", IMAGE)
    result = operation.rsplit(" -> ", 1)[-1] if operation.startswith("%y") and "->" in operation else IMAGE
    text = LEGAL.replace("OPERATION", operation).replace("IMAGE", result)
    with pytest.raises(FarmError) as caught:
        media.parse(text, {KEY: ZEROS})
    return caught.value


def _conv(attrs: str = CONV, result: str = "tensor<1x8x4x4xf32>", value: str = "%x", kind: str = IMAGE) -> str:
    return f'%y = "media.conv"({value}, %w) {{{attrs}}} : ({kind}, tensor<8x4x3x3xf32>) -> {result}'


def _pool(attrs: str, result: str) -> str:
    return f'%y = "media.max_pool"(%x) {{{attrs}}} : ({IMAGE}) -> {result}'


def _unary(op: str, attrs: str = "", result: str = IMAGE) -> str:
    return f'%y = "media.{op}"(%x){f" {{{attrs}}}" if attrs else ""} : ({IMAGE}) -> {result}'


_MOVED = (
    "sizes = array<i64: {sizes}>, strides = array<i64: {strides}>, offset = {offset} : i64, shape = array<i64: {shape}>"
)
BY_MLIR = {
    "no such operation": (_unary("reluu"), "unregistered operation"),
    "a missing operand": ('%y = "media.add"(%x) : (IMAGE) -> IMAGE', "expects exactly 2 operands"),
    "an operand too many": ('%y = "media.relu"(%x, %x) : (IMAGE, IMAGE) -> IMAGE', "expects"),
    "no operand for a variadic": ('%y = "media.matmul"() : () -> IMAGE', "expects at least 2 operands"),
    "a missing attribute": (_unary("softmax"), 'attribute "axis" is expected'),
    "an attribute of another kind": (_unary("softmax", "axis = 1.0 : f64"), "expected base attribute"),
    "a list where a number belongs": (_unary("softmax", "axis = array<i64: 1>"), "expected base attribute"),
    "a number where a list belongs": (_conv(CONV.replace("array<i64: 1, 1>, group", "1 : i64, group")), "base attr"),
    "an operand that is no tensor": ('%i = arith.constant 1 : i32\n    %y = "media.relu"(%i) : (i32) -> IMAGE', ""),
    "no result": ('"media.relu"(%x) : (IMAGE) -> ()\n    %y = "media.relu"(%x) : (IMAGE) -> IMAGE', "exactly 1 result"),
    "two results": (
        '%z:2 = "media.relu"(%x) : (IMAGE) -> (IMAGE, IMAGE)\n    %y = "media.relu"(%x) : (IMAGE) -> IMAGE',
        "exactly 1 result",
    ),
    "a tensor without a rank": (_unary("relu", "", "tensor<*xf32>"), "but got 'builtin.unranked_tensor'"),
}
BY_RULES = {
    "another shape than that of the operand": (_unary("relu", "", "tensor<1x4x6x7xf32>"), "declared f32 1x4x6x7"),
    "another element type than that of the operand": (_unary("relu", "", "tensor<1x4x6x6xf64>"), "declared f64"),
    "shapes that do not broadcast": (f'%y = "media.add"(%x, %v) : (IMAGE, {VECTOR}) -> IMAGE', "do not broadcast"),
    "operands of two element types": ('%y = "media.add"(%x, %l) : (IMAGE, tensor<2xi64>) -> IMAGE', "f32 and i64"),
    "an unknown attribute": (_unary("relu", "slope = 0.1 : f64"), "'slope' is not an attribute"),
    "an axis outside the rank": (_unary("softmax", "axis = 4 : i64"), "axis 4 is outside rank 4"),
    "a negative axis": (_unary("softmax", "axis = -1 : i64"), "the least is 0"),
    "an attribute that is an i32": (_unary("softmax", "axis = 1 : i32"), "axis must be of i64"),
    "an attribute that is an f32": (_unary("clip", "min = 0.0 : f32, max = 6.0 : f64"), "min must be an f64"),
    "a bound that is not a number": (_unary("clip", "min = 0.0 : f64, max = 0x7FF8000000000000 : f64"), "not a number"),
    "three strides": (_conv(CONV.replace("strides = array<i64: 1, 1>", "strides = array<i64: 1, 1, 1>")), "have 2"),
    "a stride of zero": (_conv(CONV.replace("strides = array<i64: 1, 1>", "strides = array<i64: 0, 1>")), "least is 1"),
    "a negative pad": (_conv(CONV.replace("0, 0, 0, 0", "0, 0, -1, 0")), "the least is 0"),
    "groups that do not divide": (_conv(CONV.replace("group = 1", "group = 3")), "do not divide into 3 groups"),
    "groups that the weight does not have": (_conv(CONV.replace("group = 1", "group = 2")), "ask for 8"),
    "a kernel that does not fit": (_conv(CONV.replace("dilations = array<i64: 1", "dilations = array<i64: 4")), "fit"),
    "a wrong size of a convolution": (_conv(result="tensor<1x8x6x6xf32>"), "it is f32 1x8x4x4"),
    "a convolution of a list": (_conv(value="%v", kind=VECTOR), "x must be N,C,H,W"),
    "a pad as large as the window": (_pool(POOL.replace("0, 0, 0, 0", "2, 0, 0, 0"), IMAGE), "not smaller than"),
    "a flag of 2": (_pool(POOL.replace("ceil_mode = 0", "ceil_mode = 2"), IMAGE), "the most is 1"),
    "a permutation that repeats": (_unary("transpose", "permutation = array<i64: 0, 1, 2, 2>"), "not a permutation"),
    "a reshape to another number of elements": (_unary("reshape", "shape = array<i64: 1, 145>"), "number of elements"),
    "a rearrangement of elements that are not there": (
        _unary("rearrange", _MOVED.format(sizes=4, strides=36, offset=36, shape=4), "tensor<4xf32>"),
        "elements 36 to 144 are read; x has 144",
    ),
    "a rearrangement from before the start": (
        _unary("rearrange", _MOVED.format(sizes=4, strides=-1, offset=2, shape=4), "tensor<4xf32>"),
        "elements -1 to 2 are read",
    ),
    "a rearrangement to another number of elements": (
        _unary("rearrange", _MOVED.format(sizes=4, strides=1, offset=0, shape=5), "tensor<5xf32>"),
        "do not fill 5",
    ),
    "a negative epsilon": (_unary("layer_norm", "epsilon = -1.0 : f64"), "must not be negative"),
    "an unknown element type": (_unary("cast", 'to = "f8"'), "it must be one of"),
    "inner sizes that differ": ('%y = "media.matmul"(%x, %v) : (IMAGE, tensor<4xf32>) -> IMAGE', "inner sizes differ"),
    "a squeeze of a size that is not 1": (_unary("squeeze", "axes = array<i64: 1>"), "dimension 1 is 4, not 1"),
    "axes that repeat": (_unary("unsqueeze", "axes = array<i64: 1, 1>"), "repeat"),
    "a sigmoid of integers": ('%y = "media.sigmoid"(%l) : (tensor<2xi64>) -> IMAGE', "first operand is i64"),
    "another dialect": ("%y = tensor.empty() : IMAGE", "only media operations"),
    "bytes that nobody has": (
        f'%y = "media.weight"() {{digest = "sha256:{"0" * 64}"}} : () -> IMAGE',
        "there are no bytes",
    ),
    "a digest that is none": ('%y = "media.weight"() {digest = "sha256:12"} : () -> IMAGE', "is not a digest"),
    "a weight of another size": (f'%y = "media.weight"() {{digest = "{KEY}"}} : () -> IMAGE', "has 1152 bytes"),
    "a constant of floats": ('%y = "media.constant"() {value = array<i64: 1>} : () -> tensor<1xf32>', "constant is"),
    "a constant of another length": ('%y = "media.constant"() {value = array<i64: 1>} : () -> tensor<2xi64>', "have 2"),
    "a constant beyond i32": (
        '%y = "media.constant"() {value = array<i64: 2147483648>} : () -> tensor<1xi32>',
        "does not fit i32",
    ),
    "an open size without a name": (_unary("relu", "", "tensor<?x4x6x6xf32>"), "1 sizes are dynamic, 0 are spelled"),
    "an open size with a bad name": (_unary("relu", "", 'tensor<?x4x6x6xf32, ["s0 +"]>'), "unexpected 'end'"),
    "an element type that is not taken": (_unary("relu", "", "tensor<1x4x6x6xbf16>"), "bf16 is not supported"),
}


@pytest.mark.parametrize("name", BY_MLIR)
def test_mlir_rejects_it_at_its_place(name: str) -> None:
    operation, reason = BY_MLIR[name]
    error = _error(operation)
    assert error.code is Code.MEDIA_REJECTED
    assert reason in error.why
    assert error.detail["line"] == (5 if operation.startswith("%i") else 4)
    assert error.detail["column"] >= 5


@pytest.mark.parametrize("name", BY_RULES)
def test_the_rules_of_the_dialect_reject_it_at_its_place(name: str) -> None:
    operation, reason = BY_RULES[name]
    error = _error(operation)
    assert error.code is Code.MEDIA_INVALID
    assert reason in error.why
    assert error.detail["line"] == 4
    assert error.detail["column"] == 10  # of the operation's name, after "    %y = "


def test_the_legal_form_of_the_text_is_accepted() -> None:
    text = LEGAL.replace("OPERATION", _conv()).replace("IMAGE", "tensor<1x8x4x4xf32>")
    assert [node.op for node in media.parse(text, {KEY: ZEROS}).nodes] == ["conv"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        "func.func @main() {",
        "func.func private @main()",
        "func.func @a() { return }\nfunc.func @b() { return }",
        "module { module { } }",
        "func.func @main() {\n  cf.br ^end\n^end:\n  return\n}",
        'func.func @main(%x: tensor<4xf32>) { "media.relu"(%x) : (tensor<4xf32>) -> tensor<4xf32>',
    ],
)
def test_text_that_is_not_one_function_is_rejected_with_a_place(text: str) -> None:
    with pytest.raises(FarmError) as caught:
        media.parse(text, {})
    assert caught.value.code is Code.MEDIA_REJECTED
    assert caught.value.detail["line"] >= 1
    assert caught.value.detail["column"] >= 1


def test_a_port_needs_the_models_name() -> None:
    with pytest.raises(FarmError) as caught:
        media.parse("func.func @main(%x: tensor<4xf32>) {\n  func.return\n}", {})
    assert caught.value.code is Code.MEDIA_INVALID
    assert "lacks media.name" in caught.value.why
