#!/usr/bin/env bash
# The programs that `make integration` starts for itself, through apt where they are missing (as root or with sudo).
# Nothing of them is left running: every test starts its own, on private ports and folders.  usage: services.sh
set -euo pipefail
declare -A package=(
    [redis-server]=redis-server [dockerd]=docker.io [postgres]=postgresql [docker-registry]=docker-registry
    [bwrap]=bubblewrap [ip]=iproute2 [node]=nodejs [npm]=npm
)
PATH=$PATH:/usr/sbin:/sbin:$(printf '%s:' /usr/lib/postgresql/*/bin)
missing=()
for program in "${!package[@]}"; do
    command -v "$program" >/dev/null || missing+=("${package[$program]}")
done
[ ${#missing[@]} -gt 0 ] || exit 0
as_root=()
if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || { echo "services.sh: install ${missing[*]}; this user may not" >&2; exit 3; }
    as_root=(sudo)
fi
# Their packages would start a daemon each; a policy says no, unless the machine has one of its own
policy=/usr/sbin/policy-rc.d
if [ ! -e $policy ]; then
    printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee $policy >/dev/null
    "${as_root[@]}" chmod 755 $policy
    trap '"${as_root[@]}" rm -f $policy' EXIT
fi
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
