"""Runs a payload as a device would: its own `media-run`, here or in an emulator, in a limited child process."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from farm import payload, reference
from farm.agreement import Array
from farm.cases import TensorSpec
from kernelfarm import child, device, digest, files
from kernelfarm.device import DeviceIndex, IndexEntry
from kernelfarm.errors import Code, FarmError

REFUSED = 4
"""Exit status of media-run when this device cannot run the bundle."""
CPU_SECONDS = 120
WALL_SECONDS = 240.0
ADDRESS_SPACE = 4 << 30
EMULATED = 10
"""Times the seconds of a native run; an emulator also reserves address space for what its guest may map."""
EMULATOR_SPACE = 256 << 30
FILE_SIZE = 1 << 30


@dataclass(frozen=True, slots=True)
class Runnable:
    """A payload ready to run: `program` is its media-run, `layout` a folder with media.idx that holds its blobs.

    `emulator` is the start of a command line that runs the program; empty: this processor runs it.
    """

    program: Path
    library: Path
    layout: Path
    target: str
    emulator: tuple[str, ...] = ()


class NotRunnableError(Exception):
    """This processor cannot run the payload; the text is the device runtime's reason."""


def prepare(folder: Path, target: str, work: Path) -> Runnable:
    """Make the payload in `folder` runnable under the new folder `work`: media.idx and the blobs that a device reads.

    What an unsigned payload lacks for a bundle (manifests, attestations) no device reads. Raises a coded `FarmError`.
    """
    header = folder / payload.HEADER
    with files.coded("a payload could not be made runnable", work):
        blobs = work / "blobs" / "sha256"
        blobs.mkdir(parents=True)
        for name in (payload.HEADER, payload.KERNELS, payload.WEIGHTS, payload.GOLDEN):
            if (folder / name).is_file():
                shutil.copyfile(folder / name, blobs / digest.hex_of(digest.of_file(folder / name)))
        index = DeviceIndex((IndexEntry(digest.of_file(header), header.stat().st_size),))
        (work / device.INDEX_NAME).write_bytes(index.to_bytes())
    return runnable(folder, work, target)


def runnable(folder: Path, layout: Path, target: str, emulator: tuple[str, ...] = ()) -> Runnable:
    """The payload in `folder` over an existing bundle `layout`; the program is made executable."""
    program = folder / payload.PROGRAM
    with files.coded("the payload's program could not be prepared", program):
        program.chmod(0o755)
    return Runnable(program, folder / payload.LIBRARY, layout, target, emulator)


def run(
    ready: Runnable,
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    cases: Sequence[Mapping[str, Array]],
    work: Path,
) -> list[dict[str, Array]]:
    """The payload's outputs, one mapping per case, a process per case; `work` is an empty folder for the exchange.

    Raises `NotRunnableError` where this processor cannot run it, `FarmError` DEVICE_RUN_FAILED when it fails otherwise,
    TOOL_CHANGED for an emulator that is no such processor.
    """
    answers = []
    for number, feeds in enumerate(cases):
        for index, spec in enumerate(inputs):
            np.ascontiguousarray(feeds[spec.name], "<f4").tofile(work / f"in-{number}-{index}")
        _call(ready, _exchange(inputs, outputs, number), work, f"case {number}")
        answers.append({spec.name: _read(work / f"out-{number}-{index}", spec) for index, spec in enumerate(outputs)})
    return answers


def self_test(ready: Runnable, work: Path) -> str:
    """What media-run says of the bundle's golden vectors, which all hold; `work` is an empty folder.

    Raises as `run`.
    """
    log = work / "log"
    _call(ready, ["--self-test"], work, "the golden vectors")
    with files.coded("what media-run said could not be read", log):
        return log.read_text(encoding="utf-8", errors="replace").strip()


def _exchange(inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec], number: int) -> list[str]:
    words = []
    for option, specs in (("in", inputs), ("out", outputs)):
        for index, spec in enumerate(specs):
            words += [f"--{option}put", f"{spec.name}={option}-{number}-{index}"]
    return words


_UNKNOWN_CPU = "unable to find CPU model"
"""What qemu says of its `-cpu`."""


def _call(ready: Runnable, words: Sequence[str], work: Path, what: str) -> None:
    program, layout = str(ready.program.absolute()), str(ready.layout.absolute())
    log, slower = work / "log", EMULATED if ready.emulator else 1
    ended = child.run_limited(
        [*ready.emulator, program, layout, "--target", ready.target, *words],
        env=reference.environment(work),
        cwd=work,
        cpu_s=CPU_SECONDS * slower,
        wall_s=WALL_SECONDS * slower,
        address_space=EMULATOR_SPACE if ready.emulator else ADDRESS_SPACE,
        file_size=FILE_SIZE,
        log_path=log,
    )
    said = files.last_line(log)
    if ended.status == REFUSED:
        raise NotRunnableError(said.removeprefix("media-run: "))
    if ready.emulator and not ended.ok and _UNKNOWN_CPU in said:
        raise FarmError(
            Code.TOOL_CHANGED,
            f"the emulator does not know the processor that it is told to be for {ready.target}",
            said,
            "Run `make tools`, or correct `cpu` under [run] in the target's file.",
            {"tool": Path(ready.emulator[0]).name},
        )
    if not ended.ok:
        how = (
            "a time limit"
            if ended.timed_out
            else f"signal {ended.signal}"
            if ended.signal
            else f"status {ended.status}"
        )
        raise FarmError(
            Code.DEVICE_RUN_FAILED,
            f"media-run ended by {how} on {what}",
            said,
            "Run `farm inspect` on the bundle; if it is whole, report the model and the case.",
            {"status": ended.status, "signal": ended.signal, "case": what},
        )


def _read(path: Path, spec: TensorSpec) -> Array:
    values = np.fromfile(path, "<f4")
    if values.size != int(np.prod(spec.shape)):
        raise FarmError(
            Code.DEVICE_RUN_FAILED, f"media-run wrote {values.size} values of {spec.name!r}", f"{spec.shape}"
        )
    return values.astype(np.float32).reshape(spec.shape)
