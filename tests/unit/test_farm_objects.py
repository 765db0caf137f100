"""The object cache: what is taken over from compiles, for whom, and what is never believed."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from farm import objects
from farm.actions import Job
from farm.objects import ObjectCache
from kernelfarm import digest
from kernelfarm.errors import Code, FarmError
from kernelfarm.nouns import Action, Execution
from kernelfarm.objects import Entry
from kernelfarm.store import ContentStore
from tests.support import farms

KEY = "a" * 64
TRUE = Entry(digest.of_bytes(b"ir"), b"object")
FALSE = Entry(digest.of_bytes(b"ir"), b"another")


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

    assert data.endswith(b'"schema":"object/1"}\nobject')
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


def test_a_damaged_entry_is_mended(cache: ObjectCache, job: Job, tmp_path: Path) -> None:
    path = cache.folder(job) / KEY
    path.write_bytes(TRUE.to_bytes()[:-1])

    cache.merge(job, reported(tmp_path / "out", TRUE))

    assert Entry.from_bytes(path.read_bytes(), KEY) == TRUE


def test_a_compile_that_reports_no_entry_is_refused(cache: ObjectCache, job: Job, tmp_path: Path) -> None:
    paths = reported(tmp_path / "out", TRUE)
    paths[0].write_bytes(b"not one")

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
