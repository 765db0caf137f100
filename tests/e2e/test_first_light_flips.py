"""Single changed bytes in the real bundle: at least 20 in each file, 500 in all, each detected and the file named."""

from __future__ import annotations

from pathlib import Path

import pytest

from farm.verify import verify_bundle
from signing import keys
from tests.support import flips
from tests.support.product import Built


def test_every_changed_byte_is_detected_and_the_file_named(real_bundle: Built, tmp_path: Path):
    found = flips.run(real_bundle, tmp_path / "bundle")

    assert found.missed == ()
    assert found.flips >= 500
    assert found.least >= 20


@pytest.mark.parametrize("name", ["index.json", "oci-layout", "media.idx"])
def test_white_space_in_a_document_counts_as_well(real_bundle: Built, tmp_path: Path, name: str):
    bundle = real_bundle.copy(tmp_path / "bundle")
    path = bundle / name
    path.chmod(0o644)
    path.write_bytes(path.read_bytes() + b"\n")

    report = verify_bundle(bundle, keys.load_public(real_bundle.product.public_key))

    assert not report.ok
    assert name in flips.named(report)
