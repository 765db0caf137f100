"""Which bytes nobody needs any more, and their removal. Bundles that were written are whole and need nothing here.

Needed are: what a cached payload consists of and the inputs that it was compiled from (for `farm rebuild`), the inputs
of runs that are queued or running, young logs, the packages that the image is built from, the image and the code that
compiles are run with today. What was put within the grace stays in any case: its run may not be in the ledger yet. The
ledger's records outlive the bytes. Old images and code go while others compile: who uses one keeps it (`files.using`).
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass

from containers import image
from containers.image import Image, code, pins
from farm.actions import Job
from farm.ledger.ledger import Ledger
from farm.scheduler import Session
from kernelfarm import canonical, files
from kernelfarm.digest import Digest
from kernelfarm.nouns import Payload

DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class Rules:
    """What may go: blobs and images that nobody needs and that are older than `grace_s`, logs of runs that ended
    `logs_s` ago, their copies in the content store with them.

    Cache entries that were recorded `cache_s` ago are forgotten before; None keeps all of them. Seconds.
    """

    grace_s: float = DAY_S
    logs_s: float = 30 * DAY_S
    cache_s: float | None = None


@dataclass(frozen=True, slots=True)
class Swept:
    """What went, or would go in a dry run; `kept_blobs` and `kept_bytes` are what the content store holds then.

    `images` counts folders of superseded images and code, `image_bytes` what lay in them.
    """

    blobs: int
    bytes: int
    cache_entries: int
    logs: int
    images: int
    image_bytes: int
    sandboxes: int
    kept_blobs: int
    kept_bytes: int


def nothing(_image: Image) -> bool:
    """An `unload` of a farm without an engine."""
    return False


def collect(
    farm: Session,
    rules: Rules,
    *,
    dry_run: bool = False,
    sweep: Callable[[], int] = lambda: 0,
    unload: Callable[[Image], bool] = nothing,
) -> Swept:
    """Remove what the rules allow. `sweep` ends the sandboxes of dead workers; how many. `unload` takes an image that
    goes out of an engine that loaded it.

    Raises `FarmError` LEDGER_* or of class ENVIRONMENT; what was removed until then stays removed, and nothing else.
    """
    now = farm.ledger.runs.now()
    stale = [] if rules.cache_s is None else farm.ledger.history.stale(now - rules.cache_s)
    forgotten = frozenset(stale)
    blobs = freed = kept_blobs = kept_bytes = 0
    needed = needed_digests(farm.ledger, forgotten, logs_since=now - rules.logs_s)
    needed |= {pin.digest for pin in pins.load().packages}
    if not dry_run:
        for key in stale:
            farm.ledger.runs.forget(key)
    for entry in farm.store.entries():
        old = entry.digest not in needed and entry.put_at < now - rules.grace_s
        if old and (dry_run or farm.store.remove(entry.digest, before=now - rules.grace_s)):
            blobs, freed = blobs + 1, freed + entry.size
        else:
            kept_blobs, kept_bytes = kept_blobs + 1, kept_bytes + entry.size
    logs = _logs(farm, now - rules.logs_s, dry_run=dry_run)
    images, image_bytes = _images(farm, now - rules.grace_s, unload, dry_run=dry_run)
    sandboxes = 0
    if not dry_run:
        files.sweep(farm.settings.home.cache)
        sandboxes = sweep()
    return Swept(blobs, freed, len(stale), logs, images, image_bytes, sandboxes, kept_blobs, kept_bytes)


def needed_digests(ledger: Ledger, forgotten: frozenset[str], *, logs_since: float) -> frozenset[Digest]:
    """Digests of all blobs that something needs, where the cache entries of the keys `forgotten` are gone.

    Logs are needed of runs that have not ended before `logs_since`, in seconds since 1970 UTC.

    Raises `FarmError` of class BAD for a record that is damaged: nothing may be removed then.
    """
    found: set[Digest] = set()
    for key, action, payload in ledger.history.needed():
        if payload is not None and key in forgotten:
            continue
        job = canonical.decode(Job, action.encode(), name="a job in the ledger")
        found |= {digest for digest, _size in job.inputs}
        if payload is not None:
            noun = canonical.decode(Payload, payload.encode(), name="a payload in the ledger")
            found |= {entry.digest for entry in noun.files}
    return frozenset(found) | {Digest(log) for log in ledger.history.logs(logs_since)}


def _images(farm: Session, before: float, unload: Callable[[Image], bool], *, dry_run: bool) -> tuple[int, int]:
    """Remove superseded images and code made before a time, but what a compile uses; how many, and how many bytes lay
    in them.
    """
    home = farm.settings.home
    root = home.root / "image"
    if not root.is_dir():
        return 0, 0
    count = size = 0
    for folder in (*image.superseded(home), *code.superseded(home)):
        with files.coded("old images could not be removed", folder):
            # A link is somebody else's doing.
            if folder.is_symlink() or folder.stat().st_mtime >= before or files.is_used(folder):
                continue
            found = sum(path.lstat().st_size for path in folder.rglob("*") if not path.is_dir())
            old = image.at(folder)
            if not dry_run and not files.discard(folder):  # somebody was faster
                continue
            count, size = count + 1, size + found
            if not dry_run and old is not None:
                unload(old)
    if not dry_run:
        for place in (root, root / "code"):  # what was replaced while somebody used it
            files.sweep(place)
    return count, size


def _logs(farm: Session, before: float, *, dry_run: bool) -> int:
    """Remove the folders of logs whose run ended before a time; how many."""
    count = 0
    for number in farm.ledger.history.ended_before(before):
        folder = farm.settings.home.logs / f"r{number}"
        if not folder.is_dir():
            continue
        count += 1
        if not dry_run:
            with files.coded("old logs could not be removed", folder):
                shutil.rmtree(folder)
    return count
