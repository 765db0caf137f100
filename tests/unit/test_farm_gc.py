"""`farm gc` removes what nobody needs, and nothing else."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from containers.image import Image, code
from containers.image.build import Built
from farm import gc
from farm.gc import Rules, Swept
from farm.scheduler import Session
from kernelfarm import canonical, files
from kernelfarm.digest import Digest, of_bytes
from kernelfarm.errors import Code, FarmError
from kernelfarm.nouns import Payload, RuleSet
from tests.support import farms

NOW_ONLY = Rules(grace_s=3600.0)


@pytest.fixture
def farm(tmp_path: Path) -> Iterator[Session]:
    with farms.session(tmp_path / "home") as made:
        yield made


def age(farm: Session, *digests: Digest, seconds: float = 7200.0) -> None:
    for digest in digests:
        path = farm.store.open_path(digest)
        then = farm.ledger.runs.now() - seconds
        os.utime(path, (then, then))


def compiled(farm: Session, data: bytes) -> tuple[int, tuple[Digest, ...]]:
    """A run that was done; its number, and the digests of its payload and its model. Its log is old too."""
    job = farms.job(farm.store, data=data)
    number = farms.submit(farm.ledger, job)
    farms.worker(farm, farms.Compiler()).work([number])
    payload = canonical.decode(Payload, (farm.ledger.runs.get(number).payload or "").encode())
    found = (*(entry.digest for entry in payload.files), job.model.digest)
    age(farm, *found, log_of(farm, number))
    return number, found


def log_of(farm: Session, number: int) -> Digest:
    [attempt] = farm.ledger.runs.attempts(number)
    assert attempt.log is not None
    return Digest(attempt.log)


def test_what_the_cache_holds_stays_with_its_model(farm: Session) -> None:
    _, needed = compiled(farm, b"a model")
    junk = farm.store.put_bytes(b"junk")
    age(farm, junk)
    swept = gc.collect(farm, NOW_ONLY)
    assert (swept.blobs, swept.bytes) == (1, 4)
    assert not farm.store.has(junk)
    assert all(farm.store.has(digest) for digest in needed)


def test_what_was_stored_within_the_grace_stays(farm: Session) -> None:
    junk = farm.store.put_bytes(b"junk")
    age(farm, junk, seconds=3500.0)
    assert gc.collect(farm, NOW_ONLY).blobs == 0
    assert farm.store.has(junk)


def test_what_is_stored_again_is_new(farm: Session) -> None:
    junk = farm.store.put_bytes(b"junk")
    age(farm, junk)
    farm.store.put_bytes(b"junk")
    assert gc.collect(farm, NOW_ONLY).blobs == 0


def test_the_inputs_of_a_queued_run_stay(farm: Session) -> None:
    rules = farm.store.put_bytes(b"rules")
    job = farms.job(farm.store, rules=RuleSet(rules, 5))
    farms.submit(farm.ledger, job)
    age(farm, job.model.digest, rules)
    assert gc.collect(farm, NOW_ONLY).blobs == 0


def test_a_kept_log_stays(farm: Session) -> None:
    number = farms.submit(farm.ledger, farms.job(farm.store))
    taken = farm.ledger.runs.take("w", lease_s=9.0, among=[number])
    assert taken is not None
    log = farm.store.put_bytes(b"compiling")
    age(farm, log)
    farm.ledger.runs.keep_log(taken[0], log)
    assert gc.collect(farm, NOW_ONLY).blobs == 0


def test_forgotten_cache_entries_free_their_bytes_but_not_what_others_share(farm: Session) -> None:
    number, needed = compiled(farm, b"a model")
    assert gc.collect(farm, Rules(grace_s=3600.0, cache_s=3600.0)).cache_entries == 0
    swept = gc.collect(farm, Rules(grace_s=3600.0, cache_s=0.0))
    assert (swept.cache_entries, swept.kept_blobs) == (1, 1)  # the log
    assert not any(farm.store.has(digest) for digest in needed)
    row = farm.ledger.runs.get(number)
    assert row.payload is not None  # the record outlives the bytes
    assert farm.ledger.runs.cached(row.execution_key) is None


def test_a_dry_run_says_the_same_and_removes_nothing(farm: Session) -> None:
    _, needed = compiled(farm, b"a model")
    rules = Rules(grace_s=3600.0, cache_s=0.0, logs_s=0.0)
    sweeps: list[int] = []

    def sweep() -> int:
        sweeps.append(1)
        return 2

    asked = gc.collect(farm, rules, dry_run=True, sweep=sweep)
    assert sweeps == []
    assert all(farm.store.has(digest) for digest in needed)
    done = gc.collect(farm, rules, sweep=sweep)
    size = asked.bytes
    assert asked == Swept(len(needed) + 1, size, 1, 1, 0, 0, 0, 0, 0)  # and the log
    assert done == Swept(len(needed) + 1, size, 1, 1, 0, 0, 2, 0, 0)


def test_old_logs_go(farm: Session) -> None:
    number, _ = compiled(farm, b"a model")
    folder, kept = farm.settings.home.logs / f"r{number}", log_of(farm, number)
    assert folder.is_dir()
    assert gc.collect(farm, Rules(logs_s=3600.0)).logs == 0
    assert farm.store.has(kept)
    assert gc.collect(farm, Rules(grace_s=3600.0, logs_s=0.0)).logs == 1
    assert not folder.exists()
    assert not farm.store.has(kept)


def images(farm: Session) -> list[Path]:
    """A superseded image, a superseded folder of code, today's code, and an image that somebody lent us, all old."""
    root = farm.settings.home.root / "image"
    lent = farm.settings.home.root / "lent"
    lent.mkdir()
    (root / "code").mkdir(parents=True)
    (root / ("b" * 16)).symlink_to(lent)
    old = [root / ("a" * 16), root / "code" / ("c" * 16)]
    for folder in old:
        (folder / "usr").mkdir(parents=True)
        (folder / "usr" / "file").write_bytes(b"12345")
    found = [*old, code.unpacked(farm.settings.home).folder, lent]
    for folder in found:
        os.utime(folder, (1.0, 1.0))
    return found


def test_superseded_images_and_code_go_while_something_is_compiled(farm: Session) -> None:
    old_image, old_code, code_now, lent = images(farm)
    fresh = farm.settings.home.root / "image" / ("d" * 16)
    fresh.mkdir()
    # A farm that always compiles
    number = farms.submit(farm.ledger, farms.job(farm.store))
    assert farm.ledger.runs.take("w", lease_s=9.0, among=[number]) is not None
    asked = gc.collect(farm, NOW_ONLY, dry_run=True)
    assert (asked.images, asked.image_bytes, old_image.is_dir()) == (2, 10, True)
    assert gc.collect(farm, NOW_ONLY).images == 2
    assert not old_image.exists()
    assert not old_code.exists()
    assert code_now.is_dir()
    assert lent.is_dir()
    assert fresh.is_dir()


def test_what_a_compile_uses_stays_until_it_ends(farm: Session) -> None:
    old_image, old_code, _code_now, _lent = images(farm)
    with files.using(old_image):
        assert gc.collect(farm, NOW_ONLY, dry_run=True).images == 1
        assert gc.collect(farm, NOW_ONLY).images == 1
        assert (old_image / "usr" / "file").read_bytes() == b"12345"
        assert not old_code.exists()
    assert gc.collect(farm, NOW_ONLY).images == 1
    assert not old_image.exists()


def test_an_old_image_goes_from_the_engine_too(farm: Session) -> None:
    old_image, _old_code, _code_now, _lent = images(farm)
    built = Built(of_bytes(b"manifest"), of_bytes(b"config"), ())
    (old_image / "image.json").write_bytes(canonical.encode(built))
    os.utime(old_image, (1.0, 1.0))
    unloaded: list[str] = []

    def unload(image: Image) -> bool:
        unloaded.append(image.docker_id)
        return True

    gc.collect(farm, NOW_ONLY, dry_run=True, unload=unload)
    assert unloaded == []
    gc.collect(farm, NOW_ONLY, unload=unload)
    assert unloaded == [built.docker_id]


def test_a_dry_run_on_a_farm_without_code_unpacks_none(farm: Session) -> None:
    root = farm.settings.home.root / "image"
    root.mkdir()
    assert gc.collect(farm, NOW_ONLY, dry_run=True).images == 0
    assert list(root.iterdir()) == []


def test_a_farm_that_never_had_an_image_gets_none(farm: Session) -> None:
    assert gc.collect(farm, NOW_ONLY).images == 0
    assert not (farm.settings.home.root / "image").exists()


def test_a_damaged_record_stops_it_before_anything_goes(farm: Session) -> None:
    junk = farm.store.put_bytes(b"junk")
    age(farm, junk)
    farm.ledger.runs.submit(execution_key="e", recipe_key="r", action='{"odd":1}')
    with pytest.raises(FarmError) as caught:
        gc.collect(farm, NOW_ONLY)
    assert caught.value.code is Code.SCHEMA_MISMATCH
    assert farm.store.has(junk)
