"""What a scan says of a file whose texts repeat each other."""

from __future__ import annotations

from sbom.licence import expression
from sbom.licence.nouns import MOST_MATCHES, Scan

_TAG = "spdx-license-identifier"
"""How ScanCode's rules for the line "SPDX-License-Identifier: ..." begin."""
_WITH = " WITH Linux-syscall-note"
_HEADERS = "zig/lib/libc/include/"
"""Where the headers of Linux for programs lie that zig brings."""
_HEAD, _BELOW = 3, 8
"""The last line on which a tag heads a file, and how far below it a notice still belongs to it."""


def expression_of(scan: Scan, name: str) -> str:
    """The expression of a file of this name, "" where there is no licence text. Raises `FarmError` LICENCE_INVALID.

    Headers of Linux for programs begin with the tag "GPL-2.0 WITH Linux-syscall-note", and many go on with the notice
    of the GPL that stood there before tags came, without a word of the exception. By Linux' own rules ("Linux kernel
    licensing rules") the tag says what the licence is. So a notice right below a tag at the head of a file that names
    the tag's licence, and nothing but its exception is missing, repeats the tag. That holds for Linux-syscall-note in
    these headers; any other tag, exception or file means what it says, the notice in full.
    """
    if not name.startswith(_HEADERS):
        return scan.expression
    if not scan.matches or len(scan.matches) >= MOST_MATCHES:  # of more, what comes later is not on record
        return scan.expression
    tag, *others = scan.matches
    licence, with_one, more = tag.expression.partition(_WITH)
    if not with_one or more or not tag.rule.startswith(_TAG) or tag.line > _HEAD:
        return scan.expression
    kept = [one for one in others if one.expression != licence or not tag.line < one.line <= tag.line + _BELOW]
    if len(kept) == len(others):
        return scan.expression
    return expression.join([tag.expression, *(one.expression for one in kept)])
