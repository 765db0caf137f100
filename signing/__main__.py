"""`python -m signing`: a signer for one build, started by `signing.client`. People start one with `farm signer`.

Standard input is the lifeline: its end ends the signer. Standard output gets one line of canonical JSON, {"ready":
true} or {"error": ...}, and nothing else; the log goes to standard error.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from kernelfarm import canonical
from kernelfarm.errors import FarmError
from signing import server


def main() -> int:
    """Serve until told to end; the exit status is that of the error, if there is one."""
    parser = argparse.ArgumentParser(prog="python -m signing")
    parser.add_argument("--key", type=Path, required=True)
    parser.add_argument("--socket", type=Path, required=True)
    parser.add_argument("--idle", type=float, required=True, help="seconds without a connection before it ends")
    options = parser.parse_args()
    settings = server.Settings(options.socket, options.key, options.idle, lifeline=0)
    try:
        server.serve(settings, lambda: _say({"ready": True}))
    except FarmError as error:
        _say({"error": error.to_json()})
        return int(error.status)
    return 0


def _say(value: dict[str, object]) -> None:
    sys.stdout.buffer.write(canonical.dumps(value) + b"\n")
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main())
