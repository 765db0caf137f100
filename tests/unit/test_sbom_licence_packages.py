"""What wheels declare of themselves."""

from __future__ import annotations

import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest

from sbom.licence import packages
from sbom.licence.packages import Claim

MIT = "Classifier: License :: OSI Approved :: MIT License"
EUPL = "Classifier: License :: OSI Approved :: European Union Public Licence 1.2 (EUPL 1.2)"


def metadata(*lines: str) -> bytes:
    return "\n".join(["Metadata-Version: 2.4", "Name: x", "Version: 1", *lines, "", "A text about the GPL."]).encode()


@pytest.mark.parametrize(
    ("lines", "licence"),
    [
        (("License-Expression: MIT OR Apache-2.0",), "MIT OR Apache-2.0"),
        (("License-Expression: gpl-3.0-only",), "GPL-3.0-only"),
        (("Classifier: License :: OSI Approved :: GNU General Public License v3 (GPLv3)",), "GPL-3.0-only"),
        (
            (
                "Classifier: License :: OSI Approved :: MIT License",
                "Classifier: License :: OSI Approved :: Apache Software License",
            ),
            "Apache-2.0 AND MIT",
        ),
        (("License: MIT",), "MIT"),
        (("License: Some licence of ours",), ""),
        (("Classifier: License :: OSI Approved :: BSD License",), ""),
        (("License-Expression: MIT AND AND",), "MIT AND AND"),
        (("License-Expression: GPL-3.0-only AND", MIT), "GPL-3.0-only AND"),
        ((MIT, EUPL), "LicenseRef-classifier-European-Union-Public-Licence-1-2-EUPL-1-2 AND MIT"),
        ((EUPL,), ""),
        (("License: GPL-3.0-only", MIT), "GPL-3.0-only AND MIT"),
        (
            ("License: GPL-3.0-only", EUPL.replace("European", "Other")),
            "GPL-3.0-only AND LicenseRef-classifier-Other-Union-Public-Licence-1-2-EUPL-1-2",
        ),
        (("License: Some licence of ours", MIT), "MIT"),
        ((), ""),
    ],
)
def test_the_claim_of_metadata(lines: tuple[str, ...], licence: str) -> None:
    assert packages.of_metadata(metadata(*lines)).licence == licence


def test_a_wheel_speaks_for_itself(tmp_path: Path) -> None:
    wheel = tmp_path / "x-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("x-1.dist-info/METADATA", metadata("License-Expression: GPL-3.0-only"))
        archive.writestr("vendored/y-1.dist-info/METADATA", metadata("License-Expression: MIT"))
    assert packages.of_wheel(wheel).licence == ""  # which of the two is its own, nobody knows
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("x-1.dist-info/METADATA", metadata("License-Expression: GPL-3.0-only"))
    assert packages.of_wheel(wheel) == Claim("GPL-3.0-only", "its metadata (License-Expression)")


def test_a_damaged_wheel_claims_nothing(tmp_path: Path) -> None:
    wheel = tmp_path / "x.whl"
    wheel.write_bytes(b"PK\x03\x04 nothing")
    assert packages.of_wheel(wheel) == packages.NOTHING
    assert packages.of_wheel(tmp_path / "missing.whl") == packages.NOTHING


def test_a_classifier_that_means_no_single_licence_is_told() -> None:
    assert packages.of_metadata(metadata(EUPL)).note.startswith("its classifier 'European Union Public Licence 1.2")


def test_an_expression_that_is_none_is_kept_for_the_judge_beside_the_table() -> None:
    assert packages.both("MIT", "the table", Claim("GPL-3.0-only AND", "its metadata"))[0] == "GPL-3.0-only AND"


def test_metadata_of_another_version_say_nothing() -> None:
    installed = version("onnx")
    assert packages.of_installed("onnx", installed).licence == "Apache-2.0"
    assert packages.of_installed("onnx", f"{installed}.post1") == packages.NOTHING


def test_table_and_own_claim_count_both_where_they_differ() -> None:
    own = Claim("GPL-3.0-only", "its metadata (classifiers)")
    assert packages.both("MIT", "the table", own) == (
        "GPL-3.0-only AND MIT",
        "the table and its metadata (classifiers)",
    )
    assert packages.both("", "the table", own) == ("GPL-3.0-only", "its metadata (classifiers)")
    assert packages.both("MIT", "the table", packages.NOTHING) == ("MIT", "the table")
    assert packages.both("", "the table", packages.NOTHING) == ("", "")
