"""`farm check --self-test`: a bundle's golden vectors through its own programs, as a device runs them.

Nothing but the bundle is needed, neither the model nor a reference runtime: who fetched a release can do it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from farm import check, native, subject
from farm.config import Config
from farm.native import NotRunnableError
from kernelfarm import files, oci_bundle
from kernelfarm.digest import Digest
from kernelfarm.errors import Code, FarmError, Status
from toolchains import target as targets
from toolchains.emulator import Kind


@dataclass(frozen=True, slots=True)
class Tested:
    """What media-run said of one payload. Where `reason` is not empty it was not run; `how` is as in `check.Report`."""

    name: str
    target: str
    payload: Digest
    how: str
    said: tuple[str, ...] = ()
    reason: str = ""
    missing_tool: bool = False

    def status_for(self, settings: Config) -> Status:
        """0, or 3 where nobody looks on and a missing tool kept it from being run."""
        return Status.ENVIRONMENT if settings.ci and self.missing_tool else Status.DONE

    def to_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return {
            "payload": self.payload,
            "ran": not self.reason,
            "how": "not run" if self.reason else self.how,
            "reason": self.reason,
            "said": list(self.said),
        }


def test(settings: Config, bundle: Path, wanted: str) -> Tested:
    """Run the golden vectors of the payload for a target, natively or in its emulator.

    Raises `FarmError` BUNDLE_* for a bundle that is not whole, TARGET_UNKNOWN, DEVICE_RUN_FAILED for vectors that do
    not hold.
    """
    if not subject.is_bundle(bundle):
        what = f"{bundle} is no bundle"
        raise FarmError(Code.USAGE, what, "only a bundle has golden vectors", "Give the folder of one.")
    view = oci_bundle.read(bundle).require()
    payload = subject.payload_of(view, wanted)
    runner = check.runner_of(wanted)
    blank = Tested(view.name or "", wanted, payload.digest, check.how(runner))
    if runner.kind is Kind.UNAVAILABLE:
        tool = wanted in targets.names() and bool(targets.load(wanted).run.emulator)
        return replace(blank, reason=runner.reason, missing_tool=tool)
    with files.temp_folder(settings.home.create().cache) as work:
        folder = subject.extract(view, payload, work / "payload")
        ready = native.runnable(folder, bundle, wanted, runner.argv_prefix)
        try:
            said = native.self_test(ready, work)
        except NotRunnableError as reason:
            return replace(blank, reason=str(reason))
    return replace(blank, said=tuple(said.splitlines()))
