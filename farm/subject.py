"""What `farm check` and `farm bench` look at: a payload that can be run, and the model that it was compiled from."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from farm import apart, build, cache, cases, models, naming, native, runners, scheduler
from farm.build import Order
from farm.cases import TensorSpec
from farm.config import Config
from farm.native import Runnable
from farm.origin import origin_of
from farm.rule_files import NO_RULES, UserRules
from farm.scheduler import OnChange
from kernelfarm import canonical, digest, files, layout, oci_bundle
from kernelfarm.digest import Digest
from kernelfarm.errors import Code, FarmError
from kernelfarm.nouns import Model, Options
from kernelfarm.oci_bundle import CONFIG, BundleView, PayloadView
from kernelfarm.store import ContentStore
from toolchains import target

MODEL_FILE = "model.onnx"


@dataclass(frozen=True, slots=True)
class Subject:
    """A payload unpacked in a folder of its own. `model` is the model's file, its external data beside it."""

    name: str
    target: str
    payload: Digest
    cached: bool
    model: Path
    ready: Runnable
    config: Mapping[str, Any]

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """The model's inputs, in its order."""
        return cases.specs(self.config, "inputs")

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """The model's outputs, in its order."""
        return cases.specs(self.config, "outputs")

    @property
    def flop(self) -> int:
        """Floating-point operations of one inference: the sum over the payload's fusion groups."""
        return sum(int(group["flop"]) for group in self.config["groups"])


def is_bundle(path: Path) -> bool:
    """Whether a folder claims to be a bundle, whole or not."""
    return (path / layout.LAYOUT).is_file()


@contextlib.contextmanager
def opened(
    settings: Config,
    path: Path,
    target_name: str,
    options: Options,
    *,
    rules: UserRules = NO_RULES,
    model: Path | None = None,
    on_change: OnChange = scheduler.ignore,
    name: str = "",
) -> Iterator[Subject]:
    """`from_bundle` for a bundle, `compiled` for a model; raises `FarmError` USAGE for what the other one takes."""
    if is_bundle(path):
        if options.shapes:
            raise FarmError(Code.USAGE, "a bundle has its shapes", "--shape is for a model")
        if rules.files:
            raise FarmError(Code.USAGE, "a bundle has its fusion rules", "--rules is for a model")
        with from_bundle(settings, path, target_name, model) as one:
            yield one
        return
    if model is not None:
        raise FarmError(Code.USAGE, f"{path} is not a bundle", "--model is for a bundle")
    with compiled(settings, path, target_name, options, rules=rules, on_change=on_change, name=name) as one:
        yield one


@contextlib.contextmanager
def compiled(
    settings: Config,
    path: Path,
    target_name: str,
    options: Options,
    *,
    rules: UserRules = NO_RULES,
    on_change: OnChange = scheduler.ignore,
    name: str = "",
) -> Iterator[Subject]:
    """The payload of a model for a target, from the cache or compiled now; gone with the block.

    `name` is the model's, by default that of its file. Raises what taking the model in or compiling it raises.
    """
    wanted = target.load(target_name)
    with scheduler.session(settings) as farm, files.temp_folder(settings.home.cache) as work:
        execution = runners.choose(settings.home).runner.execution()
        words = settings.scrub_words
        order = Order((path,), (target_name,), options, workers=1, execution=execution, scrub_words=words, rules=rules)
        named = {name or naming.default_name(path, words): path}

        def ready(turn: int) -> Subject:
            with apart.wanting(farm, {"models": [str(path.absolute())], "targets": [target_name]}) as begin:
                (cell,) = build.compile_order(farm, order, named, [wanted], on_begin=begin, on_change=on_change)
            if cell.error is not None or cell.payload is None or cell.job is None:
                raise cell.error or FarmError(Code.INTERNAL, "a finished compile has no payload")
            place = work / str(turn)
            folder = cache.materialise(cell.payload, farm.store, place / "payload")
            unpacked = _unpack_model(cell.job.model, farm.store, place / "model")
            runnable = native.prepare(folder, target_name, place / "layout")
            name, digest_of_it, cached = cell.model, cell.payload.digest, cell.cached is not None
            return Subject(name, target_name, digest_of_it, cached, unpacked, runnable, _config(folder))

        yield cache.unless_swept(ready)


@contextlib.contextmanager
def from_bundle(settings: Config, root: Path, target_name: str, model_path: Path | None) -> Iterator[Subject]:
    """The payload for a target out of a bundle whose bytes are whole, run over the bundle's own folder.

    The model comes from the store by the provenance's digests, or from `model_path` when it is that very model. Raises
    `FarmError` BUNDLE_*, TARGET_UNKNOWN with the bundle's targets, MODEL_UNAVAILABLE.
    """
    view = oci_bundle.read(root).require()
    found = payload_of(view, target_name)
    model = origin_of(view, found).model
    home = settings.home.create()
    with files.temp_folder(home.cache) as work:
        folder = extract(view, found, work / "payload")
        unpacked = _find_model(model, ContentStore(home.store), model_path, work, settings.scrub_words)
        ready = native.runnable(folder, root, target_name)
        yield Subject(model.name, target_name, found.digest, True, unpacked, ready, _config(folder))


def payload_of(view: BundleView, target_name: str) -> PayloadView:
    """The payload of a bundle for a target; raises `FarmError` TARGET_UNKNOWN naming those that it has."""
    for payload in view.payloads:
        if payload.target == target_name:
            return payload
    present = [payload.target for payload in view.payloads]
    raise FarmError(
        Code.TARGET_UNKNOWN,
        f"the bundle has no payload for {target_name!r}",
        next_step=f"It has {', '.join(present)}.",
        detail={"target": target_name, "nearest": present},
    )


def _unpack_model(model: Model, store: ContentStore, folder: Path) -> Path:
    with files.coded("a model could not be unpacked", folder):
        folder.mkdir()
        store.export(model.digest, folder / MODEL_FILE)
        for external in model.external:
            place = folder / external.name
            place.parent.mkdir(parents=True, exist_ok=True)
            store.export(external.digest, place)
    return folder / MODEL_FILE


def _find_model(model: Model, store: ContentStore, given: Path | None, work: Path, words: Sequence[str]) -> Path:
    missing = [item for item in (model.digest, *(file.digest for file in model.external)) if not store.has(item)]
    if given is not None:
        taken = models.take_in(given, model.name, store, scratch=work, words=words).model
        if replace(taken, before=model.before) != model:  # another file of the same model serves as well
            hint = "" if words else "; words that were scrubbed from it belong in the file that FARM_SCRUB_WORDS names"
            raise _unavailable(model, f"{given.name} is another model: {taken.digest}{hint}")
    elif missing:
        raise _unavailable(model, f"the store lacks {missing[0]}")
    return _unpack_model(model, store, work / "model")


def take_model(model: Model, store: ContentStore, given: Path | None, scratch: Path, words: Sequence[str] = ()) -> None:
    """Make sure that the store holds the model's bytes, taking them in from `given` without `words`.

    Raises `FarmError` MODEL_UNAVAILABLE.
    """
    with files.temp_folder(scratch) as work:
        _find_model(model, store, given, work, words)


def _unavailable(model: Model, why: str) -> FarmError:
    return FarmError(
        Code.MODEL_UNAVAILABLE,
        f"the model {model.name} is not at hand",
        why,
        f"Give its file with --model; its digest is {model.digest}.",
        {"model": model.name, "digest": model.digest},
    )


def extract(view: BundleView, payload: PayloadView, folder: Path) -> Path:
    """Write a payload's files, each checked against its digest, into the new `folder`; returns it."""
    with files.coded("a payload could not be unpacked", folder):
        folder.mkdir(parents=True)
        for title, blob in sorted(payload.files.items()):
            data = view.folder.blob_path(blob).read_bytes()
            if digest.of_bytes(data) != blob.digest:
                raise FarmError(Code.BUNDLE_CHANGED, f"{title} changed while it was read", detail={"file": title})
            (folder / title).write_bytes(data)
    return folder


def _config(folder: Path) -> Mapping[str, Any]:
    value: Mapping[str, Any] = canonical.loads((folder / CONFIG).read_bytes(), name=CONFIG)
    return value
