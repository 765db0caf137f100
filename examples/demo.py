"""`make demo`: one real model to a signed bundle for every target, verified, checked and rebuilt elsewhere.

Checked means compared with onnxruntime: on ten inputs where this processor runs the payload, on one in qemu; what can
be run in neither has a row that says so. Everything goes through the command line, as a release job would do it; state
stays under build/demo. A second run takes all of it from the cache and the record. Exits 0 only if every line of the
table holds.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
STATE = ROOT / "build" / "demo"
MODEL_NAME = "text-direction"
SHAPE = "1x3x48x192"


class StepFailedError(Exception):
    """A command ended with another status than the demo needs."""


@dataclass(frozen=True, slots=True)
class Farm:
    """The command line, with the demo's own state."""

    home: Path

    def __call__(self, *arguments: str, ok: Sequence[int] = (0,)) -> Any:
        """The JSON document of `farm ARGUMENTS --json`; the command and its time are printed."""
        began = time.monotonic()
        shown = shlex.join(["farm", *(_short(word) for word in arguments)])
        done = subprocess.run(
            [sys.executable, "-m", "farm.cli.main", *arguments, "--json"],
            cwd=ROOT,
            env={**os.environ, "FARM_HOME": str(self.home)},
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        print(f"{time.monotonic() - began:7.1f} s  $ {shown}", flush=True)
        if done.returncode not in ok:
            raise StepFailedError(f"`{shown}` ended with status {done.returncode}")
        return json.loads(done.stdout)


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table: what the demo shows of one target's payload, and what of it does not hold."""

    cells: tuple[str, ...]
    faults: tuple[str, ...]


HEADER = ("target", "size", "max abs error", "hardening", "payload", "rebuilt same")


def main() -> int:
    """Run the demo; 0 when all holds."""
    began = time.monotonic()
    farm = Farm(STATE / "home")
    try:
        rows = run(farm, model_path())
    except StepFailedError as failure:
        print(f"demo: {failure}", file=sys.stderr)
        return 1
    print()
    _print_table([HEADER, *(row.cells for row in rows)])
    faults = [fault for row in rows for fault in row.faults]
    for fault in faults:
        print(f"demo: {fault}", file=sys.stderr)
    print(f"\n{'all holds' if not faults else 'NOT all holds'}, in {time.monotonic() - began:.1f} s")
    return 1 if faults else 0


def run(farm: Farm, model: Path) -> list[Row]:
    """Build, check, rebuild, verify; a row per target."""
    if not farm("keys", "list")["keys"]:
        farm("keys", "new")
    targets = sorted(farm("targets")["targets"])
    words = [word for target in targets for word in ("-t", target)]
    built = farm("build", str(model), *words, "--shape", SHAPE, "--out", str(STATE / "bundles"))
    bundle = built["bundles"][0]["path"]
    verify = ("verify", bundle, "--key", str(farm.home / "keys" / "default.pub"))
    with ThreadPoolExecutor() as pool:  # none of the four changes anything
        asked = [
            pool.submit(farm, *words, ok=(0, 1, 3))
            for words in (
                ("inspect", bundle),
                ("check", bundle),
                verify,
                ("rebuild", bundle, "--vary", "all", "--recorded"),
            )
        ]
    inspected, checks, verified, recorded = (one.result() for one in asked)
    rebuilt = rebuilds(farm, bundle, targets, recorded["rebuilt"])
    if any(one["how"] == "now" for one in rebuilt.values()):
        verified = farm(*verify)  # with the comparisons that were just signed
    return [
        row(target, verified, inspected["targets"][target], checks["targets"][target], rebuilt) for target in targets
    ]


def rebuilds(farm: Farm, bundle: str, targets: Sequence[str], recorded: Sequence[Any]) -> dict[str, Any]:
    """The rebuild of each target with everything varied: off the record where it is there, else made now."""
    worst_last = sorted(recorded, key=lambda one: not one["same"])
    found = {one["target"]: {**one, "how": "recorded"} for one in worst_last}
    missing = [target for target in targets if target not in found]
    if missing:
        words = [word for target in missing for word in ("-t", target)]
        made = farm("rebuild", bundle, "--vary", "all", *words, ok=(0, 1))
        found |= {one["target"]: {**one, "how": "now"} for one in made["rebuilt"]}
    return found


def row(target: str, verified: Any, inspected: Any, check: Any, rebuilt: dict[str, Any]) -> Row:
    """The line of one target, and what of it does not hold."""
    properties = inspected["hardening"]["properties"]
    lacking = sorted(name for name, found in properties.items() if not found["holds"])
    again = rebuilt[target]
    cells = (
        target,
        f"{inspected['size'] / 1024:.0f} KiB",
        _numerics(check),
        f"{len(properties) - len(lacking)}/{len(properties)} ({_notable(properties)})",
        inspected["digest"].removeprefix("sha256:")[:16],
        f"{'yes' if again['same'] else 'NO'}, {again['how']} ({len(again['varied'])} varied)",
    )
    claims = (
        (verified["ok"] and verified["signature"] == "verified", "the bundle does not verify"),
        (verified["targets"][target]["digest"] == inspected["digest"] == again["payload"], "digests differ"),
        (check["holds"] or not check["ran"], "outputs are outside the tolerance"),
        (check["ran"] or not (check["missing_tool"] and under_ci()), f"not run: {check['reason']}"),
        (bool(properties) and not lacking, f"hardening lacks {', '.join(lacking)}"),
        (again["same"], "the rebuild differs"),
    )
    return Row(cells, tuple(f"{target}: {text}" for holds, text in claims if not holds))


def under_ci() -> bool:
    """Nobody looks on: what a missing tool kept from being run is a fault then."""
    return os.environ.get("CI", "").lower() in ("1", "true", "yes")


def _numerics(check: Any) -> str:
    if not check["ran"]:
        return f"not run: {check['reason']}"
    how = "native" if check["how"] == "native" else check["how"].split()[0].removesuffix("-static")
    return f"{check['max_abs_error']:.2e} on {check['cases']}, {how}"


def _notable(properties: dict[str, Any]) -> str:
    shown = ("kcfi", "branch-note", "return-note", "relro", "now", "full-width")
    return " ".join(name for name in shown if name in properties and properties[name]["holds"])


def model_path() -> Path:
    """Where the pinned model lies, downloaded if it must be."""
    command = [sys.executable, "-m", "tests.support.models", MODEL_NAME]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise StepFailedError("the model is not at hand")
    return Path(done.stdout.strip())


def _short(word: str) -> str:
    """Paths under the repository as a user would type them."""
    return str(Path(word).relative_to(ROOT)) if word.startswith(str(ROOT)) else word


def _print_table(rows: Sequence[Sequence[str]]) -> None:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for line in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


if __name__ == "__main__":
    raise SystemExit(main())
