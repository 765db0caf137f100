"""The click command of the farm: stricter than click's where that would drop what somebody asked for."""

from __future__ import annotations

from collections import Counter

import click


class Command(click.Command):
    """A command that refuses an option given twice which takes one value: click keeps the last without a word."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As `click.Command.parse_args`; raises `UsageError` for a repeated option."""
        if ctx.resilient_parsing:  # completion: half a command is no mistake
            return super().parse_args(ctx, args)
        _values, _rest, order = self.make_parser(ctx).parse_args(args=list(args))
        for param, times in Counter(order).items():
            if isinstance(param, click.Option) and times > 1 and not (param.multiple or param.count or param.is_flag):
                raise click.UsageError(f"{param.opts[-1]} is given {times} times, and takes one value", ctx)
        return super().parse_args(ctx, args)


class Group(click.Group):
    """A group of such commands."""

    command_class = Command
