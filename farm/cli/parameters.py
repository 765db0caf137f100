"""Types of options that several commands share."""

from __future__ import annotations

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


TARGET = TargetName()
