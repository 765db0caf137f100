"""A compiler that lets its time zone reach the payload: what a rebuild must find."""

from __future__ import annotations

import json
import os
import runpy
import sys
from pathlib import Path

from kernelfarm import canonical, digest


def main() -> None:
    out_dir = sys.argv[2]
    try:
        runpy.run_module("kernelc", run_name="__main__", alter_sys=True)
    except SystemExit as end:
        if end.code:
            raise
    config, result = Path(out_dir) / "payload" / "config.json", Path(out_dir) / "result.json"
    document = json.loads(config.read_bytes())
    document["tools"]["zone"] = {"version": os.environ["TZ"]}
    config.write_bytes(canonical.dumps(document))
    listed = json.loads(result.read_bytes())
    listed["files"]["config.json"] = {"digest": digest.of_file(config), "size": config.stat().st_size}
    result.write_bytes(canonical.dumps(listed))


if __name__ == "__main__":
    main()
