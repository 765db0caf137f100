"""How graphs print: the exact text, which is what stage digests are made of."""

from __future__ import annotations

import numpy as np

from kernelc import media
from kernelc.graph import weight_of
from kernelc.media.builder import GraphBuilder
from kernelc.media.irdl import irdl_text
from kernelc.symbols import symbol

ONES = "sha256:8ce72669ac13acdfb8c43d7fd6a2055e8bff6f7252734b1a8611dc103250354c"  # of 108 float32 ones
CONV = {"strides": (2, 2), "pads": (1, 1, 1, 1), "dilations": (1, 1), "group": 1}


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.strip().splitlines()]


def test_a_static_graph_prints_weights_by_digest_then_operations() -> None:
    build = GraphBuilder()
    x = build.input("image", "f32", (1, 3, 8, 8))
    weight = build.weight(weight_of(np.ones((4, 3, 3, 3)), "f32"))
    y = build.node("clip", [build.node("conv", [x, weight], CONV)], {"min": 0.0, "max": float(np.float32(0.1))})
    image, kernel, result = "tensor<1x3x8x8xf32>", "tensor<4x3x3x3xf32>", "tensor<1x4x4x4xf32>"
    attrs = "dilations = array<i64: 1, 1>, group = 1 : i64, pads = array<i64: 1, 1, 1, 1>, strides = array<i64: 2, 2>"
    assert _lines(media.to_text(build.finish([("out", y)]))) == _lines(f"""
module {{
  func.func @main(%arg0: {image} {{media.name = "image"}}) -> ({result} {{media.name = "out"}}) {{
    %0 = "media.weight"() {{digest = "{ONES}"}} : () -> {kernel}
    %1 = "media.conv"(%arg0, %0) {{{attrs}}} : ({image}, {kernel}) -> {result}
    %2 = "media.clip"(%1) {{max = 0.10000000149011612 : f64, min = 0.000000e+00 : f64}} : ({result}) -> {result}
    return %2 : {result}
  }}
}}
""")


def test_open_sizes_print_in_the_types_encoding_and_small_lists_in_place() -> None:
    build = GraphBuilder()
    x = build.input("x", "f32", (symbol("s0"), 3, symbol("s1")))
    sizes = build.node("shape", [x], {"start": 0, "end": 1})
    rest = build.weight(weight_of(np.array([-1]), "i64"))
    target = build.node("concat", [sizes, rest], {"axis": 0})
    y = build.node("dynamic_reshape", [x, target], {"allow_zero": 0})
    x_type, y_type = 'tensor<?x3x?xf32, ["s0", "s1"]>', 'tensor<?x?xf32, ["s0", "3*s1"]>'
    assert _lines(media.to_text(build.finish([("y", y)]))) == _lines(f"""
module {{
  func.func @main(%arg0: {x_type} {{media.name = "x"}}) -> ({y_type} {{media.name = "y"}}) {{
    %0 = "media.constant"() {{value = array<i64: -1>}} : () -> tensor<1xi64>
    %1 = "media.shape"(%arg0) {{end = 1 : i64, start = 0 : i64}} : ({x_type}) -> tensor<1xi64>
    %2 = "media.concat"(%1, %0) {{axis = 0 : i64}} : (tensor<1xi64>, tensor<1xi64>) -> tensor<2xi64>
    %3 = "media.dynamic_reshape"(%arg0, %2) {{allow_zero = 0 : i64}} : ({x_type}, tensor<2xi64>) -> {y_type}
    return %3 : {y_type}
  }}
}}
""")


def test_operands_of_different_sizes_of_a_variadic_are_cast_to_one_type_and_come_back() -> None:
    build = GraphBuilder()
    left, right = build.input("a", "f32", (1, 2)), build.input("b", "f32", (1, 3))
    graph = build.finish([("y", build.node("concat", [left, right], {"axis": 1}))])
    text = media.to_text(graph)
    assert _lines(text)[2:5] == _lines("""
    %cast = tensor.cast %arg0 : tensor<1x2xf32> to tensor<?x?xf32>
    %cast_0 = tensor.cast %arg1 : tensor<1x3xf32> to tensor<?x?xf32>
    %0 = "media.concat"(%cast, %cast_0) {axis = 1 : i64} : (tensor<?x?xf32>, tensor<?x?xf32>) -> tensor<1x5xf32>
""")
    assert media.parse(text, {}) == graph


def test_names_of_ports_are_escaped_and_come_back() -> None:
    build = GraphBuilder()
    name = 'a "b" \\ é 名'
    graph = build.finish([(name + "'", build.node("relu", [build.input(name, "f32", (1,))]))])
    text = media.to_text(graph)
    assert '{media.name = "a \\22b\\22 \\\\ \\C3\\A9 \\E5\\90\\8D"}' in text
    assert media.parse(text, {}) == graph


def test_special_numbers_of_attributes_come_back() -> None:
    build = GraphBuilder()
    value = build.input("x", "f64", (1,))
    for low, high in ((-0.0, 5e-324), (-np.inf, np.inf), (1e-5, 1.7976931348623157e308)):
        value = build.node("clip", [value], {"min": float(low), "max": float(high)})
    graph = build.finish([("y", value)])
    again = media.parse(media.to_text(graph), {})
    assert [repr(node.attrs) for node in again.nodes] == [repr(node.attrs) for node in graph.nodes]


def test_an_operation_in_the_dialects_own_text() -> None:
    wanted = """
  irdl.operation @matmul {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %b = irdl.base "!builtin.tensor"
    %result = irdl.base "!builtin.tensor"
    irdl.operands(x: %x, y: %y, b: optional %b)
    irdl.results(result: %result)
  }
"""
    assert wanted in irdl_text()
    assert irdl_text().startswith("irdl.dialect @media {\n")
