#!/usr/bin/env bash
# The steps of a release, as the pipelines beside this file run them: `release.sh STEP`. What each runs is written down
# in docs/how-to/release-and-publish.md; tests hold the two together and run every step.
#
# On the farm: build, rebuild, release, publish.
#   MODEL          the model's file               SHAPE    shape of its input, where the file leaves it open
#   MODEL_LICENCE  SPDX expression                TARGETS  names, separated by spaces
#   CHANNEL        the channel that it goes to    CHANNELS a file of channels, or empty
# On a machine that has the public key alone: verify, lock, fetch, self-test.
#   KEY            the public key                 VERSION  which one; by default what reports/publish.json says
# On both:
#   REPOSITORY     REGISTRY/REPOSITORY            NAME     name of the bundle; by default that of the model's file
set -euo pipefail
step=${1:?build, rebuild, release, publish, verify, lock, fetch or self-test}
name=${NAME:-$(basename "${MODEL%.*}")}
[ -z "${REPOSITORY:-}" ] || REPOSITORY=${REPOSITORY,,} # registries know lower case alone, GitHub has owners with capitals
mkdir -p reports
trap 'cat "reports/$step.json" >&2' ERR # why a step failed belongs into the log too
if [ -z "${VERSION:-}" ] && [ -f reports/publish.json ]; then
  VERSION=$(python3 -c 'import json; print(json.load(open("reports/publish.json"))["version"].split("+")[0])')
fi
case "$step" in
build)
  targets=()
  for target in $TARGETS; do targets+=(-t "$target"); done
  farm build "$MODEL" "${targets[@]}" ${SHAPE:+--shape "$SHAPE"} --name "$name" --model-licence "$MODEL_LICENCE" \
    --scan-licences --out bundles --json > reports/build.json ;;
rebuild)
  farm rebuild "bundles/$name" --json > reports/rebuild.json ;;
release)
  farm release "bundles/$name" --channel "$CHANNEL" ${CHANNELS:+--channels "$CHANNELS"} --out releases \
    --junit reports/release.xml --sarif reports/release.sarif --json > reports/release.json ;;
publish)
  farm publish "releases/$name" "$REPOSITORY" --json > reports/publish.json ;;
verify)
  farm verify "$REPOSITORY:$VERSION" --key "$KEY" \
    --junit reports/verify.xml --sarif reports/verify.sarif --json > reports/verify.json ;;
lock)
  farm lock "$REPOSITORY:$VERSION" --key "$KEY" --json > reports/lock.json ;;
fetch)
  farm fetch farm.lock --key "$KEY" --out bundles --json > reports/fetch.json ;;
self-test)
  farm check "bundles/$name" --self-test --json > reports/self-test.json ;;
*)
  echo "unknown step $step" >&2; exit 2 ;;
esac
