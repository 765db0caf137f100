"""The largest resident set of any process of one compile, as the kernel counts it for the compile and its children."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from containers.process import ProcessRunner
from farm import actions, config, origin, rebuild, subject, worker
from kernelfarm import oci_bundle
from kernelfarm.store import ContentStore
from tests.support.product import Built


def of_compile(built: Built, target: str, folder: Path) -> int:
    """Bytes; compiles the bundle's model once more in `folder`, as a worker does it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    view = oci_bundle.read(built.bundle).require()
    made = origin.origin_of(view, subject.payload_of(view, target))
    os.environ["FARM_HOME"] = str(built.product.home)
    settings = config.load()
    job = rebuild.same_job(made, actions.toolbox())
    worker.prepare(folder / "in", job, ContentStore(settings.home.store), 2)
    _accepted, ended = ProcessRunner().compile_in(folder, limits=settings.limits)
    return ended.max_rss_bytes
