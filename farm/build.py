"""One `farm build`: models and targets in, signed bundles out."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from farm import alive, apart, bundle, cache, destination, models, naming, runners, scheduler
from farm.actions import Toolbox, job_of, toolbox
from farm.bundle import PayloadInput, WrittenBundle
from farm.ledger import rows
from farm.ledger.builds import BuildRow
from farm.ledger.nouns import AttemptRow, RunRow
from farm.ledger.rules import BuildState, Outcome
from farm.licences import gate, materials
from farm.licences.gate import Terms
from farm.licences.order import LicenceOrder
from farm.models import Taken
from farm.payload import read_folder
from farm.rule_files import NO_RULES, UserRules
from farm.scheduler import Cell, OnChange, Session
from kernelfarm import canonical, files
from kernelfarm.errors import Code, FarmError, Status
from kernelfarm.nouns import Execution, Options
from signing import client, keys
from signing.statement import Provenance
from toolchains import target as targets
from toolchains.target import Target

_RUNTIME_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class Order:
    """What `farm build` was asked for. `workers` is how many processes may compile at once; 0 chooses.

    `execution` says which runner compiles and in which image; None: a bare process. `scrub_words` may stay in no name.
    `rules` join the farm's own; `options` does not name them yet.
    """

    models: tuple[Path, ...]
    targets: tuple[str, ...]
    options: Options
    name: str | None = None
    version: str | None = None
    use_cache: bool = True
    workers: int = 0
    execution: Execution | None = None
    scrub_words: tuple[str, ...] = ()
    licences: LicenceOrder = field(default_factory=LicenceOrder)
    rules: UserRules = NO_RULES


@dataclass(frozen=True, slots=True)
class Built:
    """What came of it: the cells by model and target, the bundles of the models whose every cell is done."""

    number: int
    cells: tuple[Cell, ...]
    bundles: tuple[WrittenBundle, ...]
    errors: tuple[FarmError, ...]
    rules: UserRules = NO_RULES

    @property
    def taken(self) -> tuple[Taken, ...]:
        """What was scrubbed, by model."""
        found = {cell.model: cell.taken for cell in self.cells if cell.taken is not None}
        return tuple(taken for _, taken in sorted(found.items()))

    @property
    def status(self) -> Status:
        """The class of the errors where they agree, else BAD; DONE without any."""
        found = {error.status for error in self.errors}
        if not found:
            return Status.DONE
        return found.pop() if len(found) == 1 else Status.BAD


def build(
    farm: Session,
    order: Order,
    out: Path,
    *,
    key: str = keys.DEFAULT,
    on_change: OnChange = scheduler.ignore,
    resume: int | None = None,
    wait: bool = True,
) -> Built:
    """Compile every model for every target and write a bundle `out`/<model name> for each model.

    A cell that fails leaves the others alone; a model with a failed cell gets no bundle. `resume` goes on with a build
    that the ledger holds. Without `wait` (only with a broker) nothing is waited for and no bundle written.

    Raises `FarmError` for what makes the whole order impossible: unknown targets, two models of one name, no key, an
    output that cannot be written; INTERRUPTED, which says how to go on, after ctrl-C.
    """
    wanted = [targets.load(name) for name in sorted(set(order.targets))]
    named = naming.name_models(order.models, order.name, order.scrub_words)
    bundle.require_version(order.version)
    naming.require_told(order.version or "", "--version", order.scrub_words)
    keys.find(farm.settings.home, key)
    terms = order.licences.terms(farm.settings.home, key)
    destination.check(out, needed_space(named.values(), len(wanted)))
    alive.bury(farm.ledger, farm.settings.home.run)
    with _recorded(farm, request(order, out, key), resume) as number:
        builds = farm.ledger.builds
        for _ in range(cache.TURNS):  # `farm gc` may remove bytes between two of our steps
            cells = compile_order(
                farm,
                order,
                named,
                wanted,
                on_begin=lambda cells: builds.add_cells(apart.rows_of(number, cells)),
                on_change=on_change,
                wait=wait,
                still_wanted=lambda: builds.get(number).state is not BuildState.CANCELLED,
            )
            if not wait:
                builds.detach(number)
                return Built(number, tuple(cells), (), tuple(_distinct(cells)), order.rules)
            written, more = _write_bundles(farm, order, out, cells, key, terms)
            errors = (*_distinct(cells), *more)
            built = Built(number, tuple(cells), tuple(written), errors, order.rules)
            if all(error.code is not Code.STORE_MISSING for error in built.errors):
                break
        farm.ledger.builds.close(number, BuildState.FAILED if built.errors else BuildState.DONE)
    return built


def request(order: Order, out: Path, key: str) -> dict[str, Any]:
    """A build as the ledger keeps it, for `resumed`; the paths are absolute."""
    plain = asdict(order)
    return {
        **plain,
        "models": [str(path.absolute()) for path in order.models],
        "targets": list(order.targets),
        "options": canonical.to_json(order.options),
        "licences": canonical.to_json(order.licences),
        "execution": None if order.execution is None else canonical.to_json(order.execution),
        "rules": [str(path.absolute()) for path in order.rules.files],
        "out": str(out.absolute()),
        "key": key,
    }


def resumed(row: BuildRow) -> tuple[Order, Path, str]:
    """The order, the folder of bundles and the key of a build that the ledger holds.

    Raises `FarmError` LEDGER_CORRUPT, or USAGE for a build of a farm that did not keep enough.
    """
    kept = json.loads(row.request)
    if apart.MARK in kept:
        why = "it was begun by a check, a benchmark or the retry of a run"
        raise FarmError(Code.USAGE, f"build b{row.id} cannot be resumed", why, "Give that command again.")
    if "out" not in kept:
        why = "an older farm began it and did not keep where its bundles belong"
        raise FarmError(Code.USAGE, f"build b{row.id} cannot be resumed", why, "Give the whole `farm build` again.")
    with rows.believing(f"the request of build b{row.id}"):
        values = {field.name: kept[field.name] for field in fields(Order) if field.name in kept}
        values["models"] = tuple(Path(path) for path in values["models"])
        values["targets"] = tuple(values["targets"])
        values["scrub_words"] = tuple(values.get("scrub_words", ()))
        values["options"] = canonical.from_json(Options, values["options"])
        if "licences" in values:
            values["licences"] = canonical.from_json(LicenceOrder, values["licences"])
        values["rules"] = UserRules.load([Path(path) for path in values.get("rules", ())])
        if values.get("execution") is not None:
            values["execution"] = canonical.from_json(Execution, values["execution"])
        return Order(**values), Path(kept["out"]), str(kept["key"])


def compile_order(
    farm: Session,
    order: Order,
    named: dict[str, Path],
    wanted: Sequence[Target],
    *,
    on_begin: OnChange = scheduler.ignore,
    on_change: OnChange = scheduler.ignore,
    wait: bool = True,
    still_wanted: Callable[[], bool] = lambda: True,
) -> list[Cell]:
    """Compile without writing bundles; the cells by model and target. `on_begin` and the others: see `compile_jobs`."""
    refused: list[Cell] = []
    jobs = []
    taken: dict[str, Taken] = {}
    box: Toolbox | None = None
    options = replace(order.options, rules=order.rules.put(farm.store))
    for name, path in named.items():
        try:
            scratch, words = farm.settings.home.cache, order.scrub_words
            taken[name] = one = models.take_in(path, name, farm.store, scratch=scratch, words=words)
        except FarmError as error:
            refused += [Cell(name, target.name, error=error) for target in wanted]
            continue
        box = box or toolbox(order.execution, runners.tools_of(farm.settings.home, order.execution))
        jobs += [job_of(one.model, target, one.options(options), box) for target in wanted]

    done = scheduler.compile_jobs(
        farm,
        jobs,
        workers=slots(order),
        use_cache=order.use_cache,
        on_begin=lambda cells: on_begin(_ordered([*refused, *cells])),
        on_change=lambda cells: on_change(_ordered([*refused, *cells])),
        wait=wait,
        wanted=still_wanted,
    )
    return _ordered([*refused, *(replace(cell, taken=taken[cell.model]) for cell in done)])


def slots(order: Order) -> int:
    """How many processes of the build's own may compile at once."""
    return order.workers or scheduler.cores()


def needed_space(paths: Iterable[Path], cells: int) -> int:
    """Bytes that a build should find free: weights once more than the models hold, and the runtime, for each cell."""
    total = 0
    for path in paths:
        with contextlib.suppress(OSError):  # taking it in says what is wrong with it
            total += path.stat().st_size
    return cells * (2 * total + _RUNTIME_BYTES)


def provenance(cell: Cell, run: RunRow, maker: AttemptRow | None = None) -> Provenance:
    """How the payload of a cell was made: by the run that compiled it, be it now or long ago, in its attempt `maker`.

    Who compiled belongs there: a release needs builds of different workers.
    """
    assert cell.job is not None
    action = cell.job.action
    return Provenance(
        model=cell.job.model,
        target_name=action.target_name,
        recipe=action.recipe,
        execution=action.execution,
        security_mode=action.execution.runner,
        invocation_id=f"r{run.id}",
        started_on=_rfc3339(run.started_at),
        finished_on=_rfc3339(run.ended_at),
        host={} if maker is None else {"name": maker.host, "worker": maker.worker},
    )


def _write_bundles(
    farm: Session, order: Order, out: Path, cells: Sequence[Cell], key: str, terms: Terms
) -> tuple[list[WrittenBundle], list[FarmError]]:
    """The bundles of the models without a failed cell, and what went wrong with the others."""
    complete = {
        name: [cell for cell in cells if cell.model == name]
        for name in sorted({cell.model for cell in cells} - {cell.model for cell in cells if cell.payload is None})
    }
    written: list[WrittenBundle] = []
    errors: list[FarmError] = []
    for name, members in complete.items():
        try:
            written.append(_write_bundle(farm, out / name, name, order.version, members, key, terms))
        except FarmError as error:
            errors.append(error)
    return written, errors


def _write_bundle(
    farm: Session,
    place: Path,
    name: str,
    version: str | None,
    cells: Sequence[Cell],
    key: str,
    terms: Terms,
) -> WrittenBundle:
    """A bundle of payloads that the licence gate does not deny; raises `FarmError` LICENCE_DENIED."""
    cache_folder = farm.settings.home.cache
    with files.coded("a bundle could not be prepared", cache_folder), files.temp_folder(cache_folder) as folder:
        payloads, verdicts = [], []
        for cell in cells:
            contents = materials.of_folder(cell.target, read_folder(unpack(farm, cell, folder / cell.target)))
            origin = _provenance(farm, cell)
            found = gate.verdict(contents, terms, farm.settings.home, farm.store, origin.execution.image)
            gate.refuse_denied(found, terms.day, f"{name} for {cell.target}")
            said = gate.statement(contents, found)
            payloads.append(PayloadInput(cell.target, folder / cell.target, origin, said))
            verdicts.append(found)
        with client.open_signer(farm.settings.home, key) as signer:  # not before: a scan takes longer than it waits
            made = bundle.write_bundle(place, name=name, version=version, payloads=payloads, signer=signer)
        return replace(made, licences=gate.summary(verdicts, terms.day))


def unpack(farm: Session, cell: Cell, folder: Path) -> Path:
    """The payload of a done cell as files in a new folder, verified."""
    assert cell.payload is not None
    return cache.materialise(cell.payload, farm.store, folder)


def _provenance(farm: Session, cell: Cell) -> Provenance:
    run = _maker(farm, cell)
    done = [item for item in farm.ledger.runs.attempts(run.id) if item.outcome is Outcome.DONE]
    return provenance(cell, run, done[-1] if done else None)


def _maker(farm: Session, cell: Cell) -> RunRow:
    """The run that compiled a cell's payload."""
    if cell.cached is not None:
        return farm.ledger.runs.get(cell.cached.run_id)
    assert cell.run is not None
    return cell.run


@contextlib.contextmanager
def _recorded(farm: Session, asked: dict[str, Any], resume: int | None) -> Iterator[int]:
    """A build in the ledger, new or resumed.

    Broken off, it lets go of its runs that no other build wants; interrupted while workers elsewhere compile, it leaves
    them at it.
    """
    builds, folder = farm.ledger.builds, farm.settings.home.run
    if resume is not None:
        _require_unattended(builds.get(resume), folder)
    number = builds.open(asked, alive.place(folder)) if resume is None else resume
    with alive.holding(folder, number):
        builds.resume(number, alive.place(folder))  # a new one too: it may have been taken for dead a moment ago
        state = BuildState.FAILED
        try:
            yield number
        except KeyboardInterrupt:
            state = BuildState.INTERRUPTED
            if farm.settings.broker is not None:
                builds.detach(number)
            raise interrupted(builds.get(number)) from None
        finally:
            if builds.get(number).state is BuildState.RUNNING:
                alive.let_go(farm.ledger, number, state)


def _require_unattended(row: BuildRow, folder: Path) -> None:
    if row.state is not BuildState.RUNNING or (row.place == alive.place(folder) and not alive.is_alive(folder, row.id)):
        return
    advice = f"Wait for it with `farm status b{row.id}`, or end it with `farm cancel b{row.id}` first."
    raise FarmError(Code.USAGE, f"build b{row.id} is under way", f"a process at {row.place} waits for it", advice)


def interrupted(row: BuildRow) -> FarmError:
    """What somebody who pressed ctrl-C should know about the build."""
    resume = f"farm build --resume b{row.id}"
    if row.state is BuildState.DETACHED:
        why = "its runs go on at the workers"
        advice = f"`{resume}` waits for them again, `farm cancel b{row.id}` ends them."
    else:
        why = "what is compiled is in the cache, the rest was given back"
        advice = f"Go on with `{resume}`."
    return FarmError(Code.INTERRUPTED, f"build b{row.id} was interrupted", why, advice, {"build": f"b{row.id}"})


def _ordered(cells: Iterable[Cell]) -> list[Cell]:
    return sorted(cells, key=lambda cell: (cell.model, cell.target))


def _distinct(cells: Iterable[Cell]) -> list[FarmError]:
    """The errors of the cells; a fault of a model itself counts once, not once per target."""
    found: dict[str, FarmError] = {}
    for cell in cells:
        if cell.error is not None:
            found.setdefault(f"{cell.model} {cell.error}", cell.error)
    return list(found.values())


def _rfc3339(seconds: float | None) -> str:
    return "" if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
