"""Prints the keys that the farm on PYTHONPATH gives a model for a target: `python show_keys.py MODEL TARGET SHAPE`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from farm import actions, config, models, shapes
from kernelfarm.store import ContentStore
from toolchains import target


def main(path: Path, target_name: str, shape: str) -> None:
    home = config.load().home.create()
    model = models.take_in(path, "net", ContentStore(home.store), scratch=home.cache).model
    job = actions.job_of(model, target.load(target_name), shapes.parse([shape]), actions.toolbox())
    keys = {"recipe": job.action.recipe_key, "execution": job.action.execution_key}
    print(json.dumps({**keys, "farm": str(Path(actions.__file__).parent)}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
