"""The benchmark of edits runs: one turn of it, through bubblewrap. `make bar-A3` is its whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import image as benchmark
from containers import image
from kernelfarm.paths import Home
from tests.support import pinned_image as pinned
from tests.support import sandboxes

pytestmark = [pytest.mark.services, pytest.mark.timeout(1800)]


def test_an_edit_of_the_compiler_is_compiled_with_and_changes_no_payload(pinned_image: Home, tmp_path: Path) -> None:
    (tmp_path / "probe").mkdir()
    with sandboxes.bubblewrap_sandbox(tmp_path / "probe"):  # where that does not work, there is nothing to measure
        pass
    home = Home(tmp_path / "home").create()
    pinned.lend(pinned_image, home.root)
    found = benchmark.edits(image.require(home), turns=1, home=home)  # it ends by itself when a payload changes
    assert {name: len(seconds) for name, seconds in found.items()} == {"to_first_word": 1, "to_first_compile": 1}
    assert 0 < found["to_first_word"][0] < found["to_first_compile"][0]
    # What the benchmark measures is the edited code, not a folder that was there
    assert len([path for path in (home.root / "image" / "code").iterdir() if path.is_dir()]) == 2
