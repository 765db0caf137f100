"""The hardening properties that the gate reads from linked bytes; target files and hardening.json use these names."""

from __future__ import annotations

from enum import StrEnum


class Property(StrEnum):
    """A member's value is its name in files. Each is a fact about bytes, never about flags."""

    KCFI = "kcfi"
    """The KCFI id stands before each entry and nowhere else in executable bytes."""
    LANDING_PADS = "landing-pads"
    """Each entry starts with the machine's landing pad; of products also each function whose address code computes."""
    BRANCH_NOTE = "branch-note"
    """The note that switches forward-edge enforcement on: IBT, BTI."""
    RETURN_NOTE = "return-note"
    """The note that switches return protection on: SHSTK, PAC."""
    NO_INDIRECT_BRANCH = "no-indirect-branch"
    """No jump or call through a register or memory; in kernels no address of code either, which serves nothing else."""
    RELRO = "relro"
    """All data, the entry table included, is read-only after relocation, on pages of up to 64 KiB."""
    NOW = "now"
    NX_STACK = "nx-stack"
    NO_WX = "no-wx"
    """No segment is writable and executable."""
    NO_TEXTREL = "no-textrel"
    NO_SEARCH_PATH = "no-search-path"
    """Neither RPATH nor RUNPATH."""
    NO_NEEDED = "no-needed"
    """No other library is needed, no symbol undefined."""
    RELATIVE_ONLY = "relative-only"
    """Every relocation is a RELATIVE one inside RELRO."""
    EXPORTS = "exports"
    """Exactly `kf_table` is exported, and it is the entry point."""
    FEATURE_SET = "feature-set"
    """Every instruction belongs to the target's CPU and features."""
    FULL_WIDTH = "full-width"
    """Where loops compute, the target's widest vector registers are used, and their arithmetic fills whole ones."""
    NO_BUILD_PATH = "no-build-path"
    """Nothing in the file names its builder: no path, source, user and host, compiler, needless section."""


class ProductProperty(StrEnum):
    """What only the library and the program can have, beside those of `Property` that are no matter of kernels alone.

    Every target's products have them.
    """

    POSITION_INDEPENDENT = "position-independent"
    """It is loaded anywhere, by no interpreter but the process that wants it."""
    STACK_PROTECTOR = "stack-protector"
    """Functions compare their canary, and go to a trap where it differs."""


FLOOR: frozenset[Property] = frozenset(Property) - {Property.FULL_WIDTH}
"""What no target may leave out unless it cannot have it: all that is about safety. A member that is added later has to
be taken out here as well, since bundles in the field do not speak of it."""
