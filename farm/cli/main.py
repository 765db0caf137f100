"""The entry point `farm`: finds commands lazily, turns every error into text or JSON, and gives the exit status."""

from __future__ import annotations

import importlib
import io
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from types import TracebackType
from typing import NoReturn

import click

from kernelfarm import files
from kernelfarm.errors import Code, FarmError, Status

COMMANDS: dict[str, str] = {
    "audit": "Show what bundles hold, and who holds a component.",
    "bench": "Measure a model's speed beside other runtimes.",
    "build": "Compile models for targets into signed bundles.",
    "cancel": "End builds and runs.",
    "check": "Compare a compiled model with the reference runtime.",
    "doctor": "Tell what this machine lacks and how to get it.",
    "explain": "Show how a model is fused and laid out, and why not otherwise.",
    "fetch": "Fetch and verify what a lock file names.",
    "gc": "Free the space of what nobody needs any more.",
    "image": "Build and verify the image that compiles run in.",
    "inspect": "Show what a bundle or a file holds.",
    "keys": "Make and list signing keys.",
    "lock": "Write down what releases of a registry are now.",
    "licences": "Show and judge the licences of a bundle.",
    "logs": "Show the log of a run.",
    "pins": "Check and update the lock of the image.",
    "publish": "Bring a release into an OCI registry.",
    "rebuild": "Compile a bundle again and compare the bytes.",
    "registry": "Configure the registry that carries blobs between hosts.",
    "release": "Give a bundle its version, if it tells the truth.",
    "retry": "Try again what failed or was cancelled.",
    "serve": "Let enrolled workers on other hosts take runs.",
    "shell": "Look around in the sandbox of a run.",
    "signer": "The process that holds the keys.",
    "status": "Show builds and runs.",
    "targets": "List the targets, or show one.",
    "waive": "Accept a finding of the licence gate for a time.",
    "worker": "Serve a queue, here or through a gate.",
    "verify": "Verify a bundle, in a folder or a registry, with a public key.",
    "withdraw": "Say that nobody should take a release any more.",
}
"""Every command with its line in `farm --help`; the module `farm.cli.NAME` is imported only when NAME is used."""

EPILOG = """\b
Examples:
  farm build model.onnx -t x86-64-v3 --shape 1x3x48x192
  farm verify bundles/model --key farm.pub

Exit status: 0 done, 1 the thing asked about is bad, 2 wrong usage, 3 the environment lacks something (see
`farm doctor`), 4 refused by policy, 130 interrupted."""
_ADVICE: Mapping[Code, str] = {
    Code.BUNDLE_INVALID: "Give the folder of a bundle, as `farm build`, `farm release` and `farm fetch` leave it.",
}
"""What to do about errors that rooms raise which know no commands, where they say nothing themselves."""
_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class LazyGroup(click.Group):
    """A group whose commands are imported when they are used: help and completion load none of them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in COMMANDS:
            return None
        command = importlib.import_module(f"farm.cli.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            raise FarmError(
                Code.USAGE,
                f"there is no command {args[0]!r}",
                f"the commands are {', '.join(sorted(COMMANDS))}",
                next_step=_did_you_mean(args[0]),
                detail={"nearest": get_close_matches(args[0], sorted(COMMANDS))},
            )
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl(sorted(COMMANDS.items()))


@click.group(cls=LazyGroup, epilog=EPILOG, context_settings=_SETTINGS)
@click.version_option(package_name="kernel-farm", prog_name="farm")
def cli() -> None:
    """Compile media models to bit-identical, signed, re-verifiable kernel bundles for edge devices."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run `farm ARGV` and return its exit status; `argv` is by default that of the process.

    The only place that prints errors. With `--json` among the arguments an error is one JSON document {"error": ...} on
    standard output as well.
    """
    if argv is None:
        _open_streams()
        sys.excepthook = _unexpected
        for number in (signal.SIGTERM, signal.SIGHUP):  # a job that is cancelled cleans up as after ctrl-C
            if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup sets it
                signal.signal(number, signal.default_int_handler)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # file names may hold bytes that no encoding knows
    arguments = list(sys.argv[1:] if argv is None else argv) or ["--help"]
    as_json = "--json" in arguments
    try:
        result = invoke(arguments)
        sys.stdout.flush()
    except FarmError as error:
        return report(error.advised(_ADVICE.get(error.code, "")), as_json=as_json)
    except click.ClickException as error:
        return report(_usage(error), as_json=as_json)
    except KeyboardInterrupt:
        stopped = FarmError(Code.INTERRUPTED, "interrupted", next_step="Run the same command again to go on.")
        return report(stopped, as_json=as_json)
    except BrokenPipeError:
        return _output_failed()
    except OSError as error:
        return report(_from_os(error), as_json=as_json)
    return int(result) if isinstance(result, int) else int(Status.DONE)


def _open_streams() -> None:
    """Give a standard stream that the caller closed to /dev/null.

    Without it the next file that is opened takes its number, and what is meant for the stream goes there.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            handle = os.open(os.devnull, os.O_RDWR)
            if handle != number:
                os.dup2(handle, number)
                os.close(handle)
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115


def invoke(arguments: list[str]) -> object:
    """What the command returns; click's own handling of errors, which would print and exit, stays out."""
    try:
        with cli.make_context("farm", arguments) as context:
            return cli.invoke(context)
    except click.exceptions.Exit as ended:  # --help and --version
        return ended.exit_code


def report(error: FarmError, *, as_json: bool) -> int:
    """Print one error and return its exit status. With `as_json` also as a document on standard output."""
    from farm.cli import output

    try:
        output.show_error(error)
        if as_json:
            output.print_json({"error": error.to_json()})
        sys.stdout.flush()
    except OSError:
        return _output_failed()
    return int(error.status)


def _usage(error: click.ClickException) -> FarmError:
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "farm"
    why = error.format_message().rstrip(".")
    return FarmError(Code.USAGE, f"`{command}` is not used like this", why, f"See `{command} --help`.")


def _did_you_mean(word: str) -> str:
    near = get_close_matches(word, sorted(COMMANDS))
    return f"Did you mean {' or '.join(f'`farm {name}`' for name in near)}?" if near else "See `farm --help`."


def _from_os(error: OSError) -> FarmError:
    if isinstance(error.filename, (str, bytes)):
        return files.error_of(error, "a file could not be read or written", Path(os.fsdecode(error.filename)))
    if isinstance(error, FileNotFoundError):
        advice = "Change to another folder and run the command again."
        return FarmError(Code.FILE_MISSING, "the working folder does not exist any more", str(error), advice)
    return files.error_of(error, "the output could not be read or written", Path("standard output"))


def _output_failed() -> int:
    """The reader of a pipe left, or the disk under standard output is full: nothing more can be said there."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the interpreter flushes once more at exit
    return int(Status.ENVIRONMENT)


def _unexpected(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> NoReturn:
    """A fault of the farm itself: the traceback goes to a file, not to the user."""
    from farm.cli import output

    problem = FarmError(
        Code.INTERNAL,
        f"farm stopped by a fault of its own ({kind.__name__}: {error})",
        next_step=output.keep_traceback(kind, error, trace),
    )
    raise SystemExit(report(problem, as_json="--json" in sys.argv))


if __name__ == "__main__":
    raise SystemExit(main())
