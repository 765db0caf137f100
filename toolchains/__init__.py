"""toolchains: targets (one file each), the pinned tools, their flags, linking, and facts read from linked bytes."""
