"""How a payload was made, as far as its recipe decides it: what the bill of materials may say beside its files."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from kernelfarm import canonical, digest
from kernelfarm.digest import Digest
from kernelfarm.nouns import Model, RecipeInputs, recipe_key
from sbom.image import Lock
from toolchains.tools import tool_identities

LIBRARIES = ("cyclonedx-python-lib", "license-expression", "packageurl-python", "py-serializable")
"""Whose versions decide the bytes of a bill, beside the sources of this room and the tools of the recipe."""
_LEFT_OUT = ("__pycache__", "licence", "read.py")
"""What decides no byte of a payload's bill: what reads and judges."""


@dataclass(frozen=True, slots=True)
class Making:
    """The model, the target and the recipe of a payload, and the lock of the image that its tools are pinned in.

    The lock is part of the sources, as `source_digest` says: it is the same wherever the payload was compiled.
    """

    model: Model
    target_name: str
    recipe: RecipeInputs
    image: Lock

    @property
    def recipe_key(self) -> Digest:
        """The recipe's key, which every rebuild of the payload has too."""
        return recipe_key(self.recipe)


def source_digest(lock: Lock, folder: Path | None = None, libraries: Iterable[str] = LIBRARIES) -> Digest:
    """Digest of all that decides a bill beside payload and recipe: `lock` too; `folder` is by default this room.

    Raises `FarmError` TOOL_MISSING when a library is not installed.
    """
    room = folder or Path(__file__).parent
    entries = [entry for entry in sorted(room.iterdir()) if entry.name not in _LEFT_OUT]
    patterns = [f"{entry.name}/**/*" if entry.is_dir() else entry.name for entry in entries]
    return canonical.digest_of(
        {
            "sources": digest.of_tree(room, patterns),
            "libraries": canonical.to_json(tool_identities(libraries)),
            "image": lock.digest,
        }
    )
