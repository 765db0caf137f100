"""ELF files without what no loader reads."""

from __future__ import annotations

import subprocess
import sys
from io import BytesIO
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from containers.image import trim

PROGRAM = Path(sys.executable).resolve()


@pytest.fixture(autouse=True)
def any_saving(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trim, "WORTH", 1)


def _loads(data: bytes) -> list[tuple[int, bytes]]:
    segments = ELFFile(BytesIO(data)).iter_segments("PT_LOAD")
    return [(segment["p_vaddr"], segment.data()) for segment in segments]


def test_a_trimmed_program_runs_and_its_segments_are_the_same(tmp_path: Path) -> None:
    data = PROGRAM.read_bytes()
    made = tmp_path / "python"

    made.write_bytes(trim.trimmed(data))
    made.chmod(0o755)

    assert made.stat().st_size < len(data)
    assert ELFFile(BytesIO(made.read_bytes())).num_sections() == 0
    for (address, after), (where, before) in zip(_loads(made.read_bytes()), _loads(data), strict=True):
        assert address == where
        if address == _loads(data)[0][0]:  # the first holds the header and the table, which say where the rest lies
            assert after[0x40:][-1000:] == before[0x40:][-1000:]
        else:
            assert after == before
    said = subprocess.run([made, "--version"], capture_output=True, text=True, check=True).stdout
    assert said.startswith("Python 3")


def test_a_trimmed_file_cannot_be_trimmed_further() -> None:
    once = trim.trimmed(PROGRAM.read_bytes())

    assert trim.trimmed(once) == once


@pytest.mark.parametrize("data", [b"", b"\x7fELF", b"text", b"\x7fELF\x02\x01" + bytes(100), b"\x7fELF\x01\x01" * 40])
def test_anything_else_stays_as_it_is(data: bytes) -> None:
    assert trim.trimmed(data) == data


def test_a_cut_file_stays_as_it_is() -> None:
    data = PROGRAM.read_bytes()[:5000]

    assert trim.trimmed(data) == data


def test_a_small_saving_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    data = PROGRAM.read_bytes()
    monkeypatch.setattr(trim, "WORTH", len(data))

    assert trim.trimmed(data) == data
