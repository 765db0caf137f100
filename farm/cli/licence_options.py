"""Options about licences that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

_FILE = click.Path(path_type=Path)
_OPTIONS = (
    click.option(
        "--model-licence",
        "model_licences",
        multiple=True,
        metavar="[NAME=]EXPRESSION",
        help="SPDX expression under which the model may be shipped; unknown otherwise. May be repeated.",
    ),
    click.option("--licence-policy", "policy", type=_FILE, help="A licence policy in place of the farm's own."),
    click.option("--waiver", "waivers", type=_FILE, multiple=True, help="A signed waiver; may be repeated."),
    click.option(
        "--waiver-key",
        "waiver_keys",
        type=_FILE,
        multiple=True,
        help="Public key of who may waive, in place of the signing key; may be repeated.",
    ),
)


def licence_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options `model_licences`, `policy`, `waivers` and `waiver_keys`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
