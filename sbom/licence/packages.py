"""Licences that Python packages declare of themselves: License-Expression, else the classifiers, else License."""

from __future__ import annotations

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
    """What a package says of itself: an expression, "" for nothing that can be understood, and where it says so."""

    licence: str = ""
    source: str = ""


NOTHING = Claim()


def purl(kind: str, name: str, version: str | None = None) -> str:
    """The package URL of a wheel ("pypi") or of a package of Debian ("deb"). Pure."""
    return PackageURL(kind, "debian" if kind == "deb" else None, name, version).to_string()


def of_installed(name: str) -> Claim:
    """The claim of an installed package; nothing where it is not installed."""
    try:
        text = metadata.distribution(name).read_text("METADATA")
    except metadata.PackageNotFoundError:
        return NOTHING
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
    """The claim in the bytes of a METADATA file."""
    found = BytesParser().parsebytes(data, headersonly=True)
    for key, texts in (
        ("License-Expression", _texts(found, "License-Expression")),
        ("classifiers", _classified(found)),
    ):
        if texts and (licence := _joined(texts)):
            return Claim(licence, f"its metadata ({key})")
    for text in _texts(found, "License"):
        if (licence := _joined([text])) and not expression.unlisted(licence):
            return Claim(licence, "its metadata (License)")
    return NOTHING


def both(listed: str, source: str, own: Claim) -> tuple[str, str]:
    """The licence by a table and by a package's own claim: the one, or both at once where they differ."""
    if not own.licence or own.licence == listed:
        return listed, source if listed else ""
    if not listed:
        return own.licence, own.source
    return _joined([listed, own.licence]), f"{source} and {own.source}"


def _texts(found: Message, key: str) -> list[str]:
    return [text for value in found.get_all(key, []) if (text := " ".join(str(value).split()))]


def _classified(found: Message) -> list[str]:
    names = [text.removeprefix(_OSI) for text in _texts(found, "Classifier") if text.startswith(_OSI)]
    return [_CLASSIFIERS[name] for name in names if name in _CLASSIFIERS]


def _joined(texts: list[str]) -> str:
    try:
        return expression.join(texts)
    except FarmError:
        return ""
