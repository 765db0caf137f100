"""`farm explain`: how a model would be fused and laid out for a target, without compiling it."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from containers import runner
from containers.process import ProcessRunner
from farm import actions, models, naming, worker
from farm.config import Config
from farm.rule_files import UserRules
from kernelc.explanation import NAME, Explanation
from kernelfarm import canonical, files
from kernelfarm.errors import Code, FarmError
from kernelfarm.nouns import Options
from kernelfarm.store import ContentStore
from toolchains import target

_EXPLAINER = ProcessRunner(program=(sys.executable, *runner.MODULE, "explain"))
_LIMIT = 64 << 20


def explain(settings: Config, path: Path, target_name: str, options: Options, rules: UserRules) -> Explanation:
    """What the compiler says of a model, in a limited child process as those that models are scrubbed in.

    Raises `FarmError` as a build of the same order does, up to the choice of layouts.
    """
    wanted, words = target.load(target_name), settings.scrub_words
    name = naming.default_name(path, words)
    home = settings.home.create()
    store = ContentStore(home.store)
    with files.coded("an explanation could not be prepared", home.cache), files.temp_folder(home.cache) as scratch:
        taken = models.take_in(path, name, store, scratch=home.cache, words=words)
        chosen = taken.options(replace(options, rules=rules.put(store)))
        job = actions.job_of(taken.model, wanted, chosen, actions.toolbox(_EXPLAINER.execution()))
        worker.prepare(scratch / "in", job, store, cores=1)
        _EXPLAINER.run_in(scratch, log_path=scratch / "log", limits=settings.limits)
        return _read(scratch / "out" / NAME)


def _read(path: Path) -> Explanation:
    """What the child wrote: it read a model that may be hostile, so its word is taken for nothing but this."""
    with files.coded("the explanation could not be read", path), path.open("rb") as stream:
        data = stream.read(_LIMIT + 1)
    if len(data) > _LIMIT:
        raise FarmError(Code.CHILD_FILE_SIZE, "the explanation is too large", f"more than {_LIMIT} bytes")
    return canonical.decode(Explanation, data, name=NAME)
