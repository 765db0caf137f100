"""LLVM IR text from zig and clang: what its functions and modules must say, since flags do not reach them."""

from __future__ import annotations

import re
from collections.abc import Collection

from kernelfarm.errors import Code, FarmError
from toolchains.target import Target

_FLAGS = re.compile(r"^!llvm\.module\.flags = !\{(.*)\}$", re.MULTILINE)
_ATTRIBUTES = re.compile(r"^(attributes #\d+ = \{)(.*)(\})$", re.MULTILINE)
_ALIAS = re.compile(r"^@([\w.$]+) = [a-z_ ]*\balias .*\n", re.MULTILINE)
_OFFERED = re.compile(r"^define (?!private |internal ).*?@([\w.$]+)", re.MULTILINE)
_TRAP = re.compile(r"\bcall void @llvm\.debugtrap\(\)(?: #\d+)?")
_TRAP_DECLARED = re.compile(r"^declare void @llvm\.debugtrap\(\).*$", re.MULTILINE)


def flag(number: int, behaviour: int, name: str, value: int | str) -> str:
    """The metadata line of one module flag."""
    shown = f"i32 {value}" if isinstance(value, int) else f'!"{value}"'
    return f'!{number} = !{{i32 {behaviour}, !"{name}", {shown}}}'


def add_module_flags(ir: str, target: Target) -> str:
    """The module with those of the target's flags that it lacks.

    LLVM IR from zig has exactly one list of flags; raises `FarmError` TOOL_OUTPUT where that is not so.
    """
    flags = [parts for parts in target.code.module_flags if f'!"{parts[1]}"' not in ir]
    if not flags:
        return ir
    first = 1 + max((int(n) for n in re.findall(r"^!(\d+) = ", ir, flags=re.MULTILINE)), default=-1)
    names = ", ".join(f"!{first + k}" for k in range(len(flags)))
    ir, count = _FLAGS.subn(rf"!llvm.module.flags = !{{\1, {names}}}", ir)
    if count != 1:
        raise FarmError(Code.TOOL_OUTPUT, "zig wrote LLVM IR of an unknown form", f"{count} lists of module flags")
    return ir + "".join(flag(first + k, *parts) + "\n" for k, parts in enumerate(flags))


def add_attributes(ir: str, target: Target) -> str:
    """The module with the target's attributes (without its CPU) in each group of attributes, and no jump tables.

    aarch64 writes no landing pads for module flags alone: each function must ask.
    """
    pairs = [f'"{name}"="{value}"' if value else f'"{name}"' for name, value in target.code.attributes]
    added = " ".join(['"no-jump-tables"="true"', *pairs])
    return _ATTRIBUTES.sub(rf"\1\2{added} \3", ir)


def aliases(ir: str) -> frozenset[str]:
    """Names under which functions of a module can be called from outside; those of zig's own library are all aliases.

    Raises `FarmError` TOOL_OUTPUT for a module that offers a function in another way.
    """
    if (found := _OFFERED.search(ir)) is not None:
        raise FarmError(Code.TOOL_OUTPUT, "zig wrote LLVM IR of an unknown form", f"it offers {found[1]} itself")
    return frozenset(match[1] for match in _ALIAS.finditer(ir))


def with_aliases(ir: str, names: Collection[str]) -> str:
    """The module without its other aliases, so that the compiler drops what only those led to."""
    return _ALIAS.sub(lambda match: match[0] if match[1] in names else "", ir)


def replace_trap(ir: str, function: str) -> str:
    """The module whose failed checks call `function` instead of `llvm.debugtrap`, after which a program goes on.

    `function` must not be declared in the module.
    Raises `FarmError` TOOL_OUTPUT where no check was found: then nothing would be checked.
    """
    ir, count = _TRAP.subn(f"call void @{function}()", ir)
    if not count:
        raise FarmError(Code.TOOL_OUTPUT, "clang wrote no check before an indirect call", "no llvm.debugtrap in its IR")
    ir = _TRAP_DECLARED.sub(f"declare void @{function}()", ir)
    if "llvm.debugtrap" in ir:
        raise FarmError(Code.TOOL_OUTPUT, "a check in LLVM IR has an unknown form", "an llvm.debugtrap was left")
    return ir
