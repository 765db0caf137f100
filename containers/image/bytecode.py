"""Byte code of the Python that a sandbox runs, made once by the image's own interpreter.

A sandbox is read-only and new each time, so without this every compile would parse a thousand modules again (0.7 s).
It is a cache beside the image, bound read-only with the code, and in no digest: marshalled code need not be the same
bytes twice. Python finds it through PYTHONPYCACHEPREFIX.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from containers.image.pins import PYTHON
from containers.image.standin import LIBRARIES
from containers.image.unpack import SITE
from kernelfarm.errors import Code, FarmError

_STANDARD = f"usr/lib/python{PYTHON}"
_LEFT_OUT = f"{SITE}/ziglang/"
_SUFFIX = f".cpython-{PYTHON.replace('.', '')}.pyc"
_PROGRAM = """
import json, py_compile, sys
for source, place, name in json.load(sys.stdin):
    try:
        mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
        py_compile.compile(source, place, name, doraise=True, invalidation_mode=mode)
    except py_compile.PyCompileError:
        pass  # it fails where it is imported, with a message that says where
"""
_TIMEOUT_S = 600.0


def of_image(root: Path, into: Path) -> None:
    """Byte code of the standard library and the packages in an image's root; `into` becomes the prefix's content."""
    names = [
        path.relative_to(root).as_posix() for folder in (_STANDARD, SITE) for path in (root / folder).rglob("*.py")
    ]
    _compile(root, root, [name for name in sorted(names) if not name.startswith(_LEFT_OUT)], "/", into)


def of_code(root: Path, code: Path, mounted: str, into: Path) -> None:
    """Byte code of our own modules in `code`, which a sandbox sees at `mounted`."""
    names = sorted(path.relative_to(code).as_posix() for path in code.rglob("*.py"))
    _compile(root, code, names, mounted, into)


def _compile(root: Path, folder: Path, names: list[str], mounted: str, into: Path) -> None:
    work = []
    for name in names:
        inside = f"{mounted.rstrip('/')}/{name}"
        place = into / inside.lstrip("/").removesuffix(".py")
        work.append([str(folder / name), f"{place}{_SUFFIX}", inside])
    libraries = root / LIBRARIES
    argv = [str(libraries / "ld-linux-x86-64.so.2"), "--library-path", str(libraries)]
    argv += [str(root / "usr" / "bin" / f"python{PYTHON}"), "-I", "-S", "-B", "-c", _PROGRAM]
    try:
        done = subprocess.run(
            argv, env={}, input=json.dumps(work).encode(), capture_output=True, timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as reason:
        raise _failed(str(reason)) from reason
    if done.returncode:
        raise _failed(done.stderr.decode("utf-8", "replace")[-500:])


def _failed(why: str) -> FarmError:
    advice = "Verify the image: `farm image verify`. It runs on x86-64 alone."
    return FarmError(Code.IMAGE_INVALID, "the image's own Python does not run", why, advice)
