"""Objects of unchanged groups come from the cache and change no byte; a false one never goes unseen."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from farm import config, rebuild
from kernelfarm import digest
from kernelfarm.errors import Code, Status
from kernelfarm.objects import ENTRY_LIMIT, Entry
from tests.support import graphs
from tests.support.product import Product
from toolchains import target, zig

TARGET, SHAPE = "x86-64-v3", "1x3x8x8"
Kinds = Counter[str]


def build(product: Product, model: Path, out: Path, *more: str) -> Any:
    """The document of a build whose every cell is done."""
    return product.must("build", model, "-t", TARGET, "--shape", SHAPE, "--out", out, *more)


def groups(product: Product, run: str) -> Kinds:
    """How many kernels a run compiled ("group") and took from the cache ("reused"), by its log."""
    logs = sorted((product.home / "logs" / run).glob("*.log"))
    lines = [json.loads(line) for line in logs[-1].read_text().splitlines() if line.startswith("{")]
    return Counter(line["stage"] for line in lines if line["stage"] in ("group", "reused"))


def run_of(document: Any) -> str:
    return str(document["cells"][0]["run"])


def payload_of(document: Any) -> str:
    return str(document["cells"][0]["payload"])


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return graphs.tiny(tmp_path / "tiny.onnx")


def test_one_changed_operator_compiles_one_group(fresh: Product, model: Path, tmp_path: Path):
    first = build(fresh, model, tmp_path / "out")
    graphs.tiny(model, alpha=0.25)

    second = build(fresh, model, tmp_path / "out")

    kernels = groups(fresh, run_of(first))["group"]
    assert kernels >= 10
    assert groups(fresh, run_of(first)) == {"group": kernels}
    assert groups(fresh, run_of(second)) == {"group": 1, "reused": kernels - 1}
    alone = build(Product(tmp_path / "elsewhere").with_key(), model, tmp_path / "alone")
    assert payload_of(alone) == payload_of(second) != payload_of(first)


def test_a_compile_without_cache_takes_no_object(fresh: Product, model: Path, tmp_path: Path):
    first = build(fresh, model, tmp_path / "out")

    again = build(fresh, model, tmp_path / "out", "--no-cache")

    assert groups(fresh, run_of(again)) == groups(fresh, run_of(first))
    assert payload_of(again) == payload_of(first)


def test_a_damaged_entry_is_compiled_again(fresh: Product, model: Path, tmp_path: Path):
    build(fresh, model, tmp_path / "out")
    entry = some_entry(fresh)
    entry.chmod(0o644)
    entry.write_bytes(entry.read_bytes()[:-1])
    graphs.tiny(model, alpha=0.25)

    second = build(fresh, model, tmp_path / "out")

    assert groups(fresh, run_of(second))["group"] == 2
    assert Entry.from_bytes(entry.read_bytes(), entry.name)


def a_folder(entry: Path) -> None:
    entry.unlink()
    (entry / "inner").mkdir(parents=True)


def a_pipe(entry: Path) -> None:
    entry.unlink()
    os.mkfifo(entry)


def a_linker_script(entry: Path) -> None:
    held = Entry.read(entry)
    entry.chmod(0o644)
    entry.write_bytes(Entry(held.llvm, b"INPUT(absent.o)\n").to_bytes())


def too_large(entry: Path) -> None:
    entry.chmod(0o644)
    os.truncate(entry, ENTRY_LIMIT + 1)


@pytest.mark.parametrize("more", [(), ("--no-cache",)])
def test_what_is_no_entry_is_replaced_in_the_same_build(
    fresh: Product, model: Path, tmp_path: Path, more: tuple[str, ...]
):
    first = build(fresh, model, tmp_path / "out")
    entries = sorted((fresh.home / "objects").glob("*/*"))
    held = [entry.read_bytes() for entry in entries]
    damages = (a_folder, a_pipe, a_linker_script, too_large)
    for entry, damage in zip(entries, damages, strict=False):
        damage(entry)
    if not more:
        graphs.tiny(model, alpha=0.25)

    second = build(fresh, model, tmp_path / "out", *more)

    assert [entry.read_bytes() for entry in entries] == held
    if more:
        assert payload_of(second) == payload_of(first)
    else:
        assert groups(fresh, run_of(second))["group"] == 1 + len(damages)


def some_entry(product: Product) -> Path:
    return sorted((product.home / "objects").glob("*/*"))[0]


def poison(entry: Path, folder: Path) -> None:
    """Replace an entry by one that is whole, of the right symbol, and does nothing."""
    symbol = f"kf_{entry.name[:16]}"
    folder.mkdir()
    source = (
        f"void {symbol}(void *, long, long);\nvoid {symbol}(void *c, long b, long e) {{ (void)c; (void)b; (void)e; }}\n"
    )
    (folder / "false.c").write_text(source)
    zig.compile_c(folder / "false.c", folder / "false.o", target.load(TARGET))
    entry.chmod(0o644)
    held = Entry.from_bytes(entry.read_bytes(), entry.name)
    entry.write_bytes(Entry(held.llvm, (folder / "false.o").read_bytes()).to_bytes())


@pytest.fixture
def poisoned(fresh: Product, model: Path, tmp_path: Path) -> Path:
    """A bundle for which a false object was taken: whoever may write the cache can do that."""
    build(fresh, model, tmp_path / "out")
    for number, entry in enumerate(sorted((fresh.home / "objects").glob("*/*"))):
        poison(entry, tmp_path / f"false{number}")
    graphs.tiny(model, alpha=0.25)
    made = build(fresh, model, tmp_path / "out")
    assert groups(fresh, run_of(made))["group"] == 1
    return Path(made["bundles"][0]["path"])


def test_a_rebuild_sees_a_false_object(fresh: Product, poisoned: Path):
    stages: list[str] = []
    settings = config.load({"FARM_HOME": str(fresh.home)})

    report = rebuild.rebuild(
        settings, rebuild.Question(poisoned), on_progress=lambda _, progress: stages.append(progress.stage)
    )

    assert not report.same
    assert "kernels.so" in [difference.file for difference in report.rebuilt[0].differences]
    assert "reused" not in stages


def test_a_build_without_cache_sees_false_objects_and_removes_them(
    fresh: Product, poisoned: Path, model: Path, tmp_path: Path
):
    done = fresh.farm("build", model, "-t", TARGET, "--shape", SHAPE, "--out", tmp_path / "out", "--no-cache")

    assert (done.status, done.codes) == (Status.BAD, [Code.OBJECT_DIFFERS])
    held = {path.name for path in (fresh.home / "objects").glob("*/*")}
    assert not held & set(done.errors[0]["detail"]["objects"])
    assert digest.of_file(poisoned / "index.json")  # nothing was published over it


def test_a_check_sees_a_false_object(fresh: Product, poisoned: Path):
    done = fresh.farm("check", poisoned, "-t", TARGET)

    assert done.status == Status.BAD
