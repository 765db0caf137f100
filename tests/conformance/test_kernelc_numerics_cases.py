"""Small graphs that trip well-known runtimes: supported ones are right, the others are refused by name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from kernelc import frontend, media
from kernelc.numerics.reference import evaluate
from kernelfarm.errors import Code, FarmError

CASES = Path(__file__).resolve().parents[3] / "shared" / "cases"
RIGHT = (
    "test_average_pool_asymmetric_pads_count_include_pad",
    "test_average_pool_ceil_count_include_pad",
    "test_batch_norm_before_padded_conv",
    "test_conv_transpose_output_padding",
    "test_depth_to_space_crd_block3",
    "test_global_average_pool_after_conv",
    "test_grouped_conv_add_full_tensor",
    "test_max_pool_asymmetric_pads",
    "test_prelu_slope_c11",
    "test_relu_clip_float64",
    "test_resize_antialias_linear",
    "test_resize_keep_aspect_not_larger",
    "test_resize_linear_sizes",
    "test_resize_tf_crop_scales",
    "test_sub_of_own_increment",
)
REFUSED = {
    "test_quantize_linear_int8_edges": "QuantizeLinear",
}
pytestmark = pytest.mark.skipif(not CASES.is_dir(), reason="the folder of shared cases is not beside this checkout")


def _tensor(path: Path) -> np.ndarray:
    proto = onnx.TensorProto()
    proto.ParseFromString(path.read_bytes())
    return numpy_helper.to_array(proto)


@pytest.mark.parametrize("name", RIGHT)
def test_a_supported_case_gives_the_right_outputs_before_and_after_simplification(name: str) -> None:
    graph = frontend.load(CASES / name / "model.onnx", {})
    simple = frontend.simplify(graph)
    data = CASES / name / "test_data_set_0"
    inputs = {port.name: _tensor(data / f"input_{index}.pb") for index, port in enumerate(graph.inputs)}
    reread = media.parse(media.to_text(simple), simple.weight_bytes())
    for form in (graph, simple, reread):
        outputs = evaluate(form, inputs)
        for index, port in enumerate(graph.outputs):
            wanted = _tensor(data / f"output_{index}.pb")
            assert outputs[port.name].dtype == wanted.dtype
            np.testing.assert_allclose(outputs[port.name], wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("name", "operator"), REFUSED.items())
def test_a_case_of_an_operator_to_come_is_refused_by_name(name: str, operator: str) -> None:
    with pytest.raises(FarmError) as caught:
        frontend.load(CASES / name / "model.onnx", {})
    assert caught.value.code is Code.OPERATOR_UNKNOWN
    assert caught.value.detail["operator"] == operator


def test_every_shared_case_is_in_one_of_the_lists() -> None:
    assert sorted(path.parent.name for path in CASES.glob("*/model.onnx")) == sorted([*RIGHT, *REFUSED])
