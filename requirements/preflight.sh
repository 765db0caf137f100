#!/usr/bin/env bash
# Says which package is missing before anything is installed.  usage: preflight.sh PYTHON
set -euo pipefail
python=${1:-}
fail() { printf 'make setup: %s\n' "$*" >&2; exit 3; }
[ -n "$python" ] || fail "no python3.11 on the PATH. Install Python 3.11 (Debian: python3.11), or run: make PYTHON=/path/to/python3.11 setup"
"$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 15))' ||
    fail "$("$python" --version) is not supported: Python 3.11 is needed. Run: make PYTHON=/path/to/python3.11 setup"
"$python" -c 'import venv' 2>/dev/null || fail "the Python module 'venv' is missing (Debian: python3.11-venv)"
"$python" -c 'import ensurepip' 2>/dev/null || fail "the Python module 'ensurepip' is missing (Debian: python3.11-venv)"
[ "$(uname -s)" = Linux ] && [ "$(uname -m)" = x86_64 ] || fail "the farm's tool wheels exist for Linux x86-64 only; this is $(uname -s) $(uname -m)"
