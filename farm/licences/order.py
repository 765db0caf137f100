"""What a build was asked about licences, as the ledger keeps it; turned into terms when its bundles are written."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from farm.licences import gate, waivers
from farm.licences.gate import Terms
from farm.licences.waivers import Foreign, Signed
from kernelfarm.paths import Home
from sbom.licence.scan import FILE_S, installed
from signing import keys


@dataclass(frozen=True, slots=True)
class LicenceOrder:
    """`models` are texts like "MIT" or "NAME=MIT"; `policy` a file, "" for the farm's own; `waivers` files beside those
    in the farm's state, signed by one of `waiver_keys` (files), by default the key that signs the bundle. Those in the
    state that another key signed cover nothing; one that is named must be good.

    With `scan` everything that ships is scanned before its bundle is written.
    """

    SCHEMA: ClassVar[str] = "licence-order/1"
    models: tuple[str, ...] = ()
    policy: str = ""
    waivers: tuple[str, ...] = ()
    waiver_keys: tuple[str, ...] = ()
    scan: bool = False

    @classmethod
    def of(
        cls,
        models: Iterable[str] = (),
        policy: Path | None = None,
        granted: Iterable[Path] = (),
        keys_of: Iterable[Path] = (),
        *,
        scan: bool = False,
    ) -> LicenceOrder:
        """From what a command was given; paths become absolute. Raises `FarmError` LICENCE_INVALID or USAGE."""
        texts = tuple(sorted(models))
        gate.model_licences(texts)
        return cls(
            texts,
            "" if policy is None else str(policy.absolute()),
            tuple(str(path.absolute()) for path in granted),
            tuple(str(path.absolute()) for path in keys_of),
            scan,
        )

    def terms(self, home: Home, key: str, *, file_s: float = FILE_S) -> Terms:
        """The terms of today. `key` names the key that signs the bundle.

        Raises `FarmError` LICENCE_POLICY_INVALID, WAIVER_INVALID, KEY_*, or SCAN_TOOLS_MISSING where a scan is asked.
        """
        granted: tuple[Signed, ...] = ()
        foreign: tuple[Foreign, ...] = ()
        if self.waivers or waivers.of_home(home):
            trusted = [keys.load_public(Path(path)) for path in self.waiver_keys]
            trusted = trusted or [keys.load_public(keys.find(home, key).public)]
            granted, foreign = waivers.of_state(home, trusted)
            granted += waivers.load(map(Path, self.waivers), trusted)
        return gate.own_terms(
            of_policy=Path(self.policy) if self.policy else None,
            licences_of=self.models,
            granted=granted,
            foreign=foreign,
            tools=installed().with_time(file_s) if self.scan else None,
        )
