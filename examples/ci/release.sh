#!/usr/bin/env bash
# The steps of a release, as the pipelines beside this file run them: `release.sh STEP`. A test runs each of them.
#   MODEL       the model's file                 TARGETS     names, separated by spaces
#   CHANNEL     the channel that it goes to      REPOSITORY  REGISTRY/REPOSITORY
#   KEY         the public key, for `verify`     CHANNELS    a file of channels, or empty
set -euo pipefail
name=$(basename "${MODEL%.*}")
mkdir -p reports
case "${1:?build, rebuild, release, publish or verify}" in
build)
  targets=()
  for target in $TARGETS; do targets+=(-t "$target"); done
  farm build "$MODEL" "${targets[@]}" --out bundles --json > reports/build.json ;;
rebuild)
  farm rebuild "bundles/$name" --json > reports/rebuild.json ;;
release)
  farm release "bundles/$name" --channel "$CHANNEL" ${CHANNELS:+--channels "$CHANNELS"} --out releases \
    --junit reports/release.xml --sarif reports/release.sarif --json > reports/release.json ;;
publish)
  farm publish "releases/$name" "$REPOSITORY" --json > reports/publish.json ;;
verify)
  version=$(python3 -c 'import json; print(json.load(open("reports/publish.json"))["version"].split("+")[0])')
  farm verify "$REPOSITORY:$version" --key "$KEY" --junit reports/verify.xml --sarif reports/verify.sarif --json > reports/verify.json ;;
*)
  echo "unknown step $1" >&2; exit 2 ;;
esac
