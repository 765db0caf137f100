"""Completes what a compile gave to a payload: the notices and the bill of materials, which only its parent writes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from containers.result import PAYLOAD_FILES, Accepted
from farm import pinned
from farm.actions import Job
from farm.payload import NOTICE, SBOM
from kernelfarm import digest, files
from kernelfarm.errors import Code, FarmError
from kernelfarm.nouns import PayloadFile
from sbom import document, notice
from sbom.making import Making


def completed(job: Job, accepted: Accepted) -> Accepted:
    """The accepted result of a job with its notices and its bill of materials beside the other files.

    Raises `FarmError` RESULT_REFUSED when the compile's own documents allow no bill, class ENVIRONMENT of the disk.
    """
    notices = _add(NOTICE, _notices(accepted.folder), accepted.folder)
    bill = _add(SBOM, _describe(job, accepted.folder), accepted.folder)  # which lists the notices
    return replace(accepted, files=tuple(sorted((*accepted.files, notices, bill), key=lambda file: file.name)))


def _add(name: str, data: bytes, folder: Path) -> PayloadFile:
    place = folder / name
    try:
        with files.coded("a payload could not be described", place), place.open("xb") as stream:
            stream.write(data)
            place.chmod(0o644)
    except FarmError as error:
        if error.code is Code.PERMISSION:  # the compile took the permissions of its own output away
            raise _refused(error.why) from error
        raise
    return PayloadFile(name, digest.of_bytes(data), len(data))


def require(job: Job, folder: Path) -> None:
    """Raise `FarmError` RESULT_REFUSED unless notices and bill in a folder are those that this farm writes."""
    with files.coded("a bill of materials could not be read", folder):
        given, notices = (folder / SBOM).read_bytes(), (folder / NOTICE).read_bytes()
    if notices != _notices(folder):
        raise _refused("its notices are not those of what was linked")
    if given != _describe(job, folder):
        raise _refused("its bill of materials is not that of its files")


def _notices(folder: Path) -> bytes:
    try:
        with files.coded("a payload could not be described", folder):
            return notice.describe(folder)
    except FarmError as error:
        if error.code is Code.PAYLOAD_INVALID:
            raise _refused(error.why) from error
        raise


def _describe(job: Job, folder: Path) -> bytes:
    made = Making(job.model, job.action.target_name, job.action.recipe, pinned.lock())
    try:
        with files.coded("a payload could not be described", folder):
            data = document.describe(folder, made)
    except FarmError as error:
        if error.code is Code.PAYLOAD_INVALID:
            raise _refused(error.why) from error
        raise
    if len(data) > PAYLOAD_FILES[SBOM]:
        raise _refused(f"its bill of materials has {len(data)} bytes, more than {PAYLOAD_FILES[SBOM]}")
    return data


def _refused(why: str) -> FarmError:
    return FarmError(
        Code.RESULT_REFUSED,
        "the result of a compile was refused",
        why,
        "Nothing of it was kept. Run the build again; if it comes back, report it.",
    )
