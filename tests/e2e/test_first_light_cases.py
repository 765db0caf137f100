"""Graphs that trip well-known runtimes, through `farm check FOLDER`: right, or refused by code; never wrong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import numpy_helper

from kernelfarm.errors import Code, Status
from tests.support import graphs, models
from tests.support.product import Product

CASES = models.ROOT.parent / "shared" / "cases"
OUTCOMES: dict[str, Code | None] = {
    "test_average_pool_asymmetric_pads_count_include_pad": None,
    "test_average_pool_ceil_count_include_pad": Code.OPERATOR_NOT_LOWERED,
    "test_batch_norm_before_padded_conv": None,
    "test_conv_transpose_output_padding": None,
    "test_depth_to_space_crd_block3": None,
    "test_global_average_pool_after_conv": None,
    "test_grouped_conv_add_full_tensor": Code.OPERATOR_NOT_LOWERED,
    "test_max_pool_asymmetric_pads": None,
    "test_prelu_slope_c11": None,
    "test_quantize_linear_int8_edges": Code.OPERATOR_UNKNOWN,
    "test_relu_clip_float64": Code.LAYOUT_INFEASIBLE,
    "test_resize_antialias_linear": None,
    "test_resize_keep_aspect_not_larger": None,
    "test_resize_linear_sizes": None,
    "test_resize_tf_crop_scales": None,
    "test_sub_of_own_increment": Code.LAYOUT_INFEASIBLE,
}
"""None: supported, and then the outputs must be right."""


@pytest.mark.parametrize(("name", "code"), OUTCOMES.items(), ids=OUTCOMES)
def test_a_case_is_right_or_refused_by_code(tmp_path: Path, name: str, code: Code | None):
    if not (CASES / name).is_dir():
        pytest.skip(f"{CASES.name}/{name} is not beside the repository")

    done = Product(tmp_path / "home").farm("check", CASES / name, "-t", "x86-64-v3")

    if code is None:
        assert (done.status, done.document["holds"]) == (Status.DONE, True), (done.document, done.stderr)
        assert done.document["against"] == "the outputs in the folder"
    else:
        assert (done.status, done.codes) == (code.status, [code]), (done.document, done.stderr)


def test_every_case_beside_the_repository_has_an_outcome():
    if not CASES.is_dir():
        pytest.skip("the cases are not beside the repository")

    assert {path.name for path in CASES.iterdir() if path.is_dir()} == set(OUTCOMES)


def test_an_output_of_the_folder_that_is_wrong_is_found_with_its_place(tmp_path: Path):
    folder = tmp_path / "case"
    data = folder / "test_data_set_0"
    data.mkdir(parents=True)
    graphs.relu(folder / "model.onnx", channels=1, side=2)
    given = np.array([[[[-1, 2], [-3, 4]]]], np.float32)
    wrong = np.array([[[[0, 2], [0, 5]]]], np.float32)
    for name, values in (("input_0.pb", given), ("output_0.pb", wrong)):
        (data / name).write_bytes(numpy_helper.from_array(values, "t").SerializeToString())

    done = Product(tmp_path / "home").farm("check", folder, "-t", "x86-64-v3")

    assert (done.status, done.document["holds"], done.document["model"]) == (Status.BAD, False, "case")
    (output,) = done.document["outputs"]
    assert (output["output"], output["index"], output["ours"], output["reference"]) == ("y", [0, 0, 1, 1], 4.0, 5.0)
    assert Code.OUTSIDE_TOLERANCE.number in done.stderr
    assert "output 'y' at [0, 0, 1, 1]: 4 here, 5 in the reference" in done.stderr
