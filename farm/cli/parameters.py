"""Options, and types of options, that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click


class TargetName(click.ParamType[str]):
    """A target's name, or "device:NAME" for the target of a device in the catalogue."""

    name = "target"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The target's name; raises `FarmError` DEVICE_UNKNOWN. Whether there is such a target is asked later."""
        del param, ctx
        from toolchains import devices

        return devices.resolve(str(value))


class RunnerName(click.ParamType[str]):
    """A runner's name or "auto"; "bwrap" is another word for bubblewrap."""

    name = "runner"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name as `farm.runners` knows it; fails as other wrong values do."""
        from farm import runners

        name = runners.ALIASES.get(str(value), str(value))
        if name not in (runners.AUTOMATIC, *runners.NAMES):
            self.fail(f"{value!r} is none of auto, {', '.join(runners.NAMES)}", param, ctx)
        return name


def rules_option(help_text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Adds `--rules FILE`, which may be repeated, as `rule_files`."""
    file = click.Path(path_type=Path)
    return click.option("--rules", "rule_files", type=file, multiple=True, metavar="FILE", help=help_text)


TARGET = TargetName()
RUNNER = RunnerName()
