"""The farm's own pinned image for tests that compile for real in it: built once under build/, its packages are kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from containers import image
from kernelfarm.errors import Code, FarmError
from kernelfarm.paths import Home
from tests.support import services

SHARED = Home(Path(__file__).resolve().parents[2] / "build" / "image-home")


@pytest.fixture(scope="session")
def pinned_image() -> Home:
    """The home with the built image; `lend` gives it to another one."""
    return ensure()


def ensure() -> Home:
    """As the fixture `pinned_image`; without the packages the test is skipped, under CI it fails."""
    try:
        image.ensure(SHARED.create())
    except FarmError as reason:
        if reason.code is not Code.PACKAGES_UNREACHABLE:
            raise
        services.missing(str(reason))
    return SHARED


def lend(shared: Home, home: Path) -> None:
    """Let the farm in `home` use the image of the shared one; its own code lies in its own folder."""
    (home / "image").mkdir(parents=True)
    for place in (shared.root / "image").iterdir():
        if place.is_dir() and place.name != "code":
            (home / "image" / place.name).symlink_to(place)
