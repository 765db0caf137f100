"""The object cache: what is taken over from compiles, for whom, and what is never believed."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from farm import objects
from farm.actions import Job
from farm.objects import ObjectCache
from kernelfarm import digest
from kernelfarm import objects as kept
from kernelfarm.errors import Code, FarmError
from kernelfarm.nouns import Action, Execution
from kernelfarm.objects import Entry
from kernelfarm.store import ContentStore
from tests.support import farms

KEY = "a" * 64
ELF = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x01\x00\x3e\x00"  # relocatable, x86-64
TRUE = Entry(digest.of_bytes(b"ir"), ELF + b"object")
FALSE = Entry(digest.of_bytes(b"ir"), ELF + b"another")


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return farms.job(ContentStore(tmp_path / "store"))


@pytest.fixture
def cache(tmp_path: Path) -> ObjectCache:
    return ObjectCache(tmp_path / "objects")


def reported(folder: Path, entry: Entry, key: str = KEY) -> list[Path]:
    """An entry as a compile leaves it."""
    folder.mkdir(exist_ok=True)
    (folder / key).write_bytes(entry.to_bytes())
    return [folder / key]


def test_an_entry_is_its_object_with_the_digests() -> None:
    data = TRUE.to_bytes()

    assert data.endswith(b'"schema":"object/1"}\n' + ELF + b"object")
    assert Entry.from_bytes(data, KEY) == TRUE


@pytest.mark.parametrize("data", [b"", b"\n", b"{}\nobject", TRUE.to_bytes()[:-1], TRUE.to_bytes() + b"x"])
def test_a_damaged_entry_is_seen(data: bytes) -> None:
    with pytest.raises(FarmError) as caught:
        Entry.from_bytes(data, KEY)
    assert caught.value.code is Code.STORE_CORRUPT


def test_what_an_accepted_compile_left_serves_the_next_one(cache: ObjectCache, job: Job, tmp_path: Path) -> None:
    cache.merge(job, reported(tmp_path / "out", TRUE))

    path = cache.folder(job) / KEY
    assert Entry.from_bytes(path.read_bytes(), KEY) == TRUE
    assert path.stat().st_mode & 0o222 == 0


def test_an_entry_that_a_fresh_compile_contradicts_is_removed_and_told(
    cache: ObjectCache, job: Job, tmp_path: Path
) -> None:
    cache.merge(job, reported(tmp_path / "first", FALSE))

    with pytest.raises(FarmError) as caught:
        cache.merge(job, reported(tmp_path / "second", TRUE))

    assert caught.value.code is Code.OBJECT_DIFFERS
    assert caught.value.detail["objects"] == [KEY]
    assert list(cache.folder(job).iterdir()) == []


def truncated(path: Path) -> None:
    path.write_bytes(TRUE.to_bytes()[:-1])


def a_linker_script(path: Path) -> None:
    path.write_bytes(Entry(TRUE.llvm, b"INPUT(/dev/zero)").to_bytes())


def of_another_machine(path: Path) -> None:
    path.write_bytes(Entry(TRUE.llvm, ELF.replace(b"\x3e", b"\xb7") + b"object").to_bytes())


def a_linked_file(path: Path) -> None:
    path.write_bytes(Entry(TRUE.llvm, ELF.replace(b"\x01\x00\x3e", b"\x03\x00\x3e") + b"object").to_bytes())


def a_folder(path: Path) -> None:
    (path / "inner").mkdir(parents=True)


def a_link(path: Path) -> None:
    (path.parent / "elsewhere").write_bytes(TRUE.to_bytes())
    path.symlink_to(path.parent / "elsewhere")


def too_large(path: Path) -> None:
    with path.open("wb") as stream:
        stream.truncate(kept.ENTRY_LIMIT + 1)


DAMAGES = [truncated, a_linker_script, of_another_machine, a_linked_file, a_folder, a_link, too_large, os.mkfifo]


@pytest.mark.parametrize("damage", DAMAGES)
def test_an_entry_that_is_none_is_replaced(
    cache: ObjectCache, job: Job, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    path = cache.folder(job) / KEY
    damage(path)

    cache.merge(job, reported(tmp_path / "out", TRUE))

    assert path.is_file() and not path.is_symlink()
    assert Entry.read(path) == TRUE


@pytest.mark.parametrize(
    "damage", [damage for damage in DAMAGES if damage not in (a_linker_script, a_linked_file, of_another_machine)]
)
def test_no_entry_is_read_from_anything_but_a_whole_plain_file(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    damage(tmp_path / KEY)

    with pytest.raises(FarmError) as caught:
        Entry.read(tmp_path / KEY)

    assert caught.value.code is Code.STORE_CORRUPT


@pytest.mark.parametrize("damage", [truncated, a_linker_script, of_another_machine])
def test_a_compile_that_reports_no_entry_is_refused(
    cache: ObjectCache, job: Job, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    paths = reported(tmp_path / "out", TRUE)
    damage(paths[0])

    with pytest.raises(FarmError) as caught:
        cache.merge(job, paths)

    assert caught.value.code is Code.STORE_CORRUPT
    assert list(cache.folder(job).iterdir()) == []


def test_the_oldest_entries_go_when_there_are_too_many(cache: ObjectCache, job: Job, tmp_path: Path) -> None:
    size = len(TRUE.to_bytes())
    for age, key in enumerate("abc"):
        cache.merge(job, reported(tmp_path / key, TRUE, key * 64))
        os.utime(cache.folder(job) / (key * 64), (1000 - age, 1000 - age))

    replace(cache, limit_bytes=3 * size).merge(job, reported(tmp_path / "d", TRUE, "d" * 64))

    assert sorted(path.name[0] for path in cache.folder(job).iterdir()) == ["a", "b", "d"]


def changed(job: Job, **recipe: object) -> Job:
    action = job.action
    made = replace(action.recipe, **recipe)  # type: ignore[arg-type]
    return replace(job, action=Action.of(job.model, farms.target_ref(job), made, action.execution))


def test_entries_serve_one_model_s_name_target_compiler_tools_and_runner(job: Job, tmp_path: Path) -> None:
    store = ContentStore(tmp_path / "store")
    other = digest.of_bytes(b"other")
    execution = Execution(image=None, builder_arch="x86_64", runner="bwrap")
    jobs = {
        "name": farms.job(store, name="det"),
        "target": farms.job(store, on="x86-64-v4"),
        "compiler": changed(job, compiler_source=other),
        "tools": changed(job, tools=()),
        "runner": replace(job, action=Action.of(job.model, farms.target_ref(job), job.action.recipe, execution)),
    }

    scopes = {objects.scope(job), *(objects.scope(one) for one in jobs.values())}

    assert len(scopes) == 6
    assert objects.scope(farms.job(store, data=b"the model, edited")) == objects.scope(job)
    assert objects.scope(changed(job, runtime_source=other)) == objects.scope(job)
