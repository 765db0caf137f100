"""Licences that Python packages declare of themselves: License-Expression, else the classifiers and License."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from email.message import Message
from email.parser import BytesParser
from importlib import metadata
from pathlib import Path

from packageurl import PackageURL

from kernelfarm.errors import FarmError
from sbom.licence import expression

_LARGEST = 1 << 20
_ANY = "License :: "
_OSI = "License :: OSI Approved :: "
_CLASSIFIERS: Mapping[str, str] = {
    "Apache Software License": "Apache-2.0",
    "Boost Software License 1.0 (BSL-1.0)": "BSL-1.0",
    "GNU Affero General Public License v3": "AGPL-3.0-only",
    "GNU Affero General Public License v3 or later (AGPLv3+)": "AGPL-3.0-or-later",
    "GNU General Public License (GPL)": "GPL-1.0-or-later",
    "GNU General Public License v2 (GPLv2)": "GPL-2.0-only",
    "GNU General Public License v2 or later (GPLv2+)": "GPL-2.0-or-later",
    "GNU General Public License v3 (GPLv3)": "GPL-3.0-only",
    "GNU General Public License v3 or later (GPLv3+)": "GPL-3.0-or-later",
    "GNU Lesser General Public License v2 (LGPLv2)": "LGPL-2.0-only",
    "GNU Lesser General Public License v2 or later (LGPLv2+)": "LGPL-2.0-or-later",
    "GNU Lesser General Public License v3 (LGPLv3)": "LGPL-3.0-only",
    "GNU Lesser General Public License v3 or later (LGPLv3+)": "LGPL-3.0-or-later",
    "GNU Library or Lesser General Public License (LGPL)": "LGPL-2.0-or-later",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
    "The Unlicense (Unlicense)": "Unlicense",
    "zlib/libpng License": "Zlib",
}
"""Trove classifiers that mean one SPDX expression; "BSD License" means any of several, so it is not here."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What a package says of itself: an expression, "" for nothing that can be understood, and where it says so.

    `note` tells why nothing can be understood. A text that is to be an expression and is none stays as it is written.
    """

    licence: str = ""
    source: str = ""
    note: str = ""


NOTHING = Claim()


def purl(kind: str, name: str, version: str | None = None) -> str:
    """The package URL of a wheel ("pypi") or of a package of Debian ("deb"). Pure."""
    return PackageURL(kind, "debian" if kind == "deb" else None, name, version).to_string()


def of_installed(name: str, version: str) -> Claim:
    """The claim of an installed package; nothing where it is not installed, or not in this version."""
    try:
        found = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return NOTHING
    text = found.read_text("METADATA") if found.version == version else None
    return of_metadata((text or "").encode()[:_LARGEST])


def of_wheel(path: Path) -> Claim:
    """The claim of a wheel's file; nothing where it has no metadata that can be read."""
    try:
        with zipfile.ZipFile(path) as archive:
            inside = [item for item in archive.infolist() if item.filename.endswith(".dist-info/METADATA")]
            if len(inside) != 1 or inside[0].filename.count("/") != 1:
                return NOTHING
            with archive.open(inside[0]) as stream:
                return of_metadata(stream.read(_LARGEST))
    except (OSError, ValueError, RuntimeError, zipfile.BadZipFile):  # encrypted and damaged ones raise these too
        return NOTHING


def of_metadata(data: bytes) -> Claim:
    """The claim in the bytes of a METADATA file: License-Expression where there is one, good or bad, else all that
    classifiers and License say together. A classifier that means no single licence is a LicenseRef beside others; alone
    it leaves nothing to rely on.
    """
    found = BytesParser().parsebytes(data, headersonly=True)
    if stated := _texts(found, "License-Expression"):
        return Claim(_joined(stated) or " ".join(stated), "its metadata (License-Expression)")
    names = [text.removeprefix(_OSI) for text in _texts(found, "Classifier") if text.startswith(_ANY)]
    vague = sorted({name for name in names if name not in _CLASSIFIERS})
    classified = [_CLASSIFIERS[name] for name in names if name in _CLASSIFIERS]
    named = [text for text in _texts(found, "License") if (one := _joined([text])) and not expression.unlisted(one)]
    if not classified and not named:
        return Claim(note=f"its classifier {vague[0]!r} means no single licence") if vague else NOTHING
    said = " and ".join(["classifiers"] * bool(classified or vague) + ["License"] * bool(named))
    return Claim(_joined([*classified, *named, *map(_reference, vague)]), f"its metadata ({said})")


def both(listed: str, source: str, own: Claim) -> tuple[str, str]:
    """The licence by a table and by a package's own claim: the one, or both at once where they differ."""
    if not own.licence or own.licence == listed:
        return listed, source if listed else ""
    if not listed:
        return own.licence, own.source
    return _joined([listed, own.licence]) or own.licence, f"{source} and {own.source}"


def _texts(found: Message, key: str) -> list[str]:
    return [text for value in found.get_all(key, []) if (text := " ".join(str(value).split()))]


def _reference(classifier: str) -> str:
    return f"LicenseRef-classifier-{re.sub(r'[^A-Za-z0-9]+', '-', classifier).strip('-')}"


def _joined(texts: list[str]) -> str:
    try:
        return expression.join(texts)
    except FarmError:
        return ""
