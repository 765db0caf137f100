"""`farm gc`: free the space of what nobody needs any more."""

from __future__ import annotations

from dataclasses import asdict

import click

from farm.cli import output
from farm.cli.command import Command

EPILOG = """\b
Examples:
  farm gc --dry-run
  farm gc --cache-days 60
  farm gc --grace-days 0 --json

Bundles that were written are never touched, and need nothing of what goes. What a cache entry held is compiled again
when somebody asks for it."""

_DAYS = click.FloatRange(0, 36_500)


@click.command("gc", cls=Command, epilog=EPILOG)
@click.option("--dry-run", is_flag=True, help="Say what would go, and remove nothing.")
@click.option("--grace-days", type=_DAYS, default=1.0, show_default=True, help="Keep what was stored since.")
@click.option("--log-days", type=_DAYS, default=30.0, show_default=True, help="Keep the logs of runs that ended since.")
@click.option("--cache-days", type=_DAYS, help="Forget cache entries that are older; all are kept otherwise.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(dry_run: bool, grace_days: float, log_days: float, cache_days: float | None, as_json: bool) -> None:
    """Remove stored content that no cache entry, build or run needs, old logs and images, and what dead workers left.

    Nothing is lost to a build that is under way: what it finds gone it compiles again.
    """
    from farm import config, gc, runners, scheduler

    rules = gc.Rules(
        grace_s=grace_days * gc.DAY_S,
        logs_s=log_days * gc.DAY_S,
        cache_s=None if cache_days is None else cache_days * gc.DAY_S,
    )
    settings = config.load()
    with scheduler.session(settings) as farm:
        swept = gc.collect(
            farm, rules, dry_run=dry_run, sweep=lambda: runners.sweep(settings.home), unload=runners.unload
        )
    if as_json:
        output.print_json({"schema": "gc/1", "dry_run": dry_run, **asdict(swept)})
        return
    verb = "would remove" if dry_run else "removed"
    click.echo(
        f"{verb} {swept.blobs} blobs ({output.size(swept.bytes)}), {swept.cache_entries} cache entries, "
        f"logs of {swept.logs} runs, {swept.images} old images and code folders ({output.size(swept.image_bytes)}), "
        f"{swept.sandboxes} sandboxes"
    )
    click.echo(f"kept {swept.kept_blobs} blobs ({output.size(swept.kept_bytes)})")
