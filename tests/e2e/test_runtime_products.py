"""The runtime as shipped: same bytes from anywhere, hardened, without a libc, usable from Python and old glibc."""

from __future__ import annotations

import array
import ctypes
import os
import re
import shutil
import subprocess
import sys
from io import BytesIO
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from tests.support import device
from toolchains import origins, products, runtime_build, target, zig

LIBRARY, PROGRAM = "libmedia_engine.so", "media-run"
API = {
    "media_api_version",
    "media_code_name",
    "media_engine_create",
    "media_engine_describe",
    "media_engine_destroy",
    "media_engine_infer",
    "media_engine_info",
    "media_engine_last_error",
    "media_engine_open",
}

BUILD = """
import os, sys
from pathlib import Path
os.umask(0o077)
from toolchains import runtime_build, target
out, work = Path(sys.argv[1]), Path(sys.argv[2])
runtime_build.build_runtime(target.load(sys.argv[3]), out, work)
"""


def test_the_same_bytes_from_another_folder_zone_and_target(tmp_path: Path) -> None:
    here = {path.name: path.read_bytes() for path in device.runtime().iterdir()}
    house = tmp_path / "another house ü"
    for room in ("kernelfarm", "toolchains", "runtime"):
        shutil.copytree(device.RUNTIME.parent / room, house / room, ignore=shutil.ignore_patterns("__pycache__"))
    (house / "out").mkdir()
    (house / "wörk").mkdir()
    surroundings = {
        "TZ": "Asia/Tokyo",
        "LC_ALL": "tr_TR.UTF-8",
        "PYTHONHASHSEED": "7",
        "HOME": str(tmp_path),
        "USER": "x",
    }

    subprocess.run(
        [sys.executable, "-c", BUILD, "out", "wörk", "x86-64-v4"],
        cwd=house,
        env={**os.environ, **surroundings, "PYTHONPATH": str(house)},
        check=True,
    )

    there = {path.name: path.read_bytes() for path in (house / "out").iterdir()}
    assert sorted(there) == [LIBRARY, PROGRAM, "media_engine.h"]
    assert there == here
    assert (house / "out" / PROGRAM).stat().st_mode & 0o777 == 0o755


LISTED = """
import os, sys
from pathlib import Path
os.sched_setaffinity(0, {int(core) for core in sys.argv[2:]})
from kernelfarm import canonical
from toolchains import origins, runtime_build, target
out, work = Path(sys.argv[1], "out"), Path(sys.argv[1], "work")
out.mkdir(), work.mkdir()
built = runtime_build.build_runtime(target.load("armv7"), out, work)
sys.stdout.buffer.write(canonical.encode(origins.document(built.links)))
"""


def test_what_is_said_of_the_links_does_not_depend_on_the_count_of_cores(tmp_path: Path) -> None:
    """On a machine with helpers: zig names their constants by its threads."""
    cores = sorted(os.sched_getaffinity(0))
    listed = []
    for chosen in (cores, cores[:1]):
        folder = tmp_path / str(len(listed))
        folder.mkdir()
        argv = [sys.executable, "-c", LISTED, str(folder), *map(str, chosen)]
        listed.append(subprocess.run(argv, capture_output=True, check=True, timeout=600).stdout)

    assert listed[0] == listed[1]


@pytest.mark.parametrize(
    ("goal", "helper"), [("armv7", "__aeabi_uldivmod"), ("hexagon-v67", "__hexagon_udivdi3")], ids=["armv7", "hexagon"]
)
def test_what_was_linked_in_is_known_on_machines_of_32_bit_too(tmp_path: Path, goal: str, helper: str) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "work").mkdir()

    built = runtime_build.build_runtime(target.load(goal), tmp_path / "out", tmp_path / "work")

    for file in origins.document(built.links).files:
        kept = {each.name: each for each in file.inputs if each.kept}
        assert len(kept) > 10, file.name
        assert any(helper in section for section in kept["helpers.o"].sections)
        assert not any("f128" in section for section in kept["helpers.o"].sections), "nothing here needs such"
        assert "zig/lib/compiler_rt.zig" in kept["helpers.o"].sources


def test_the_products_have_every_property_of_the_gate() -> None:
    for found in products.require_both(device.TARGET, device.runtime()):
        assert {finding.property for finding in found.findings} == set(products.PROPERTIES)
        assert found.impossible == ()


def test_every_exported_function_is_in_the_header() -> None:
    header = (device.runtime() / "media_engine.h").read_text()

    assert set(re.findall(r"\b(media_\w+)\(", header)) == API


def test_the_header_gives_the_three_functions_as_the_document_does() -> None:
    header = (device.runtime() / "media_engine.h").read_text()

    for line in (
        "typedef struct { void* handle; } MediaEngine;",
        "MediaEngine* media_engine_create(const char* model_path, const MediaConfig* config);",
        "int media_engine_infer(MediaEngine* eng, const MediaTensor* inputs, MediaTensor* outputs);",
        "void media_engine_destroy(MediaEngine* eng);",
    ):
        assert line in header


def test_symbols_carry_the_version_of_the_interface() -> None:
    section = ELFFile(BytesIO((device.runtime() / LIBRARY).read_bytes())).get_section_by_name(".gnu.version_d")

    assert [aux.name for _, auxes in section.iter_versions() for aux in auxes] == [LIBRARY, "MEDIA_1"]


class Tensor(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_uint32),
        ("version", ctypes.c_uint32),
        ("data", ctypes.c_void_p),
        ("bytes", ctypes.c_uint64),
        ("dtype", ctypes.c_uint32),
        ("rank", ctypes.c_uint32),
        ("dims", ctypes.c_int64 * 8),
    )


def test_a_process_with_its_own_libc_can_load_the_library(tmp_path: Path) -> None:
    bundle = device.write(tmp_path / "bundle", device.tiny())
    library = ctypes.CDLL(str(device.runtime() / LIBRARY))
    library.media_engine_create.restype = ctypes.c_void_p
    library.media_engine_create.argtypes = [ctypes.c_char_p, ctypes.c_void_p]
    library.media_engine_infer.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    library.media_engine_destroy.argtypes = [ctypes.c_void_p]
    x, y = ctypes.create_string_buffer(device.INPUT, 4096), ctypes.create_string_buffer(4096)
    given = Tensor(ctypes.sizeof(Tensor), 1, ctypes.addressof(x), 4096)
    wanted = Tensor(ctypes.sizeof(Tensor), 1, ctypes.addressof(y), 4096)

    engine = library.media_engine_create(os.fsencode(bundle), None)
    code = library.media_engine_infer(engine, ctypes.byref(given), ctypes.byref(wanted))
    library.media_engine_destroy(engine)

    assert code == 0
    assert y.raw == device.EXPECTED
    assert array.array("f", y.raw)[1023] == 2557.5


@pytest.mark.slow
def test_a_program_for_glibc_2_17_links_and_runs_with_the_library(tmp_path: Path) -> None:
    bundle = device.write(tmp_path / "bundle", device.tiny())
    (tmp_path / "main.c").write_text(
        "int program_main(int, char **);\nint main(int c, char **v) { return program_main(c, v); }\n"
    )
    argv: list[str | Path] = [
        zig.zig_path(),
        "cc",
        "-target",
        "x86_64-linux-gnu.2.17",
        "-O2",
        "-s",
        "-std=c99",
        *zig.WARNINGS,
    ]
    argv += ["-I", device.RUNTIME / "include", device.RUNTIME / "tests" / "capi.c", tmp_path / "main.c"]
    argv += [device.runtime() / LIBRARY, "-o", tmp_path / "capi", f"-Wl,-rpath,{device.runtime()}"]
    caches = {name: str(tmp_path / "cache") for name in ("ZIG_GLOBAL_CACHE_DIR", "ZIG_LOCAL_CACHE_DIR")}

    subprocess.run(argv, check=True, env={**os.environ, **caches})

    assert device.run(tmp_path / "capi", bundle).returncode == 0
