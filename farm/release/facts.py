"""Reads from a bundle what its users see of it, and compares the expected answers of two bundles."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from farm import agreement
from farm.payload import GOLDEN, HEADER, INCLUDE, as_file
from farm.release import compatibility
from farm.release.compatibility import Interface, Numbers, TargetFacts, Tensor, Verdict
from kernelfarm import canonical, oci, oci_bundle
from kernelfarm.device import PayloadHeader
from kernelfarm.digest import Digest
from kernelfarm.errors import Code, FarmError
from kernelfarm.golden import Golden
from kernelfarm.layout import fault
from kernelfarm.oci_bundle import CONFIG, BundleView, PayloadView

_API = re.compile(rb"^#define MEDIA_API_VERSION (\d+)u$", re.MULTILINE)


def interface_of(view: BundleView) -> Interface:
    """The interface of a bundle that was verified; raises `FarmError` naming the file that is none of ours."""
    return Interface(view.name, tuple((payload.target, _facts(view, payload)) for payload in view.payloads))


def goldens_of(view: BundleView) -> dict[Digest, bytes]:
    """The golden vectors of a bundle, by digest: targets mostly share them."""
    found: dict[Digest, bytes] = {}
    for payload in view.payloads:
        blob = payload.files[GOLDEN]
        if blob.digest not in found:
            with as_file(view, blob, GOLDEN) as path:
                found[blob.digest] = path.read_bytes()
    return found


def compared(old: Interface, goldens: Mapping[Digest, bytes], new: Interface, view: BundleView) -> Verdict:
    """What a bundle (its interface, and itself) changes for users of another one and its golden vectors."""
    return compatibility.compare(old, new, numbers(old, new, goldens, goldens_of(view)))


def numbers(
    old: Interface, new: Interface, before: Mapping[Digest, bytes], after: Mapping[Digest, bytes]
) -> dict[str, Numbers]:
    """How the expected answers compare, for each target that both have; `before` and `after` hold golden vectors."""
    known: dict[tuple[Digest, Digest], Numbers] = {}
    ours = dict(new.targets)
    found = {}
    for target, facts in old.targets:
        if target in ours:
            pair = (facts.golden, ours[target].golden)
            if pair not in known:
                known[pair] = _numbers(pair, before, after)
            found[target] = known[pair]
    return found


def _numbers(pair: tuple[Digest, Digest], before: Mapping[Digest, bytes], after: Mapping[Digest, bytes]) -> Numbers:
    if pair[0] == pair[1]:
        return Numbers.SAME
    if pair[0] not in before or pair[1] not in after:
        return Numbers.INCOMPARABLE
    return compare_goldens(Golden.from_bytes(before[pair[0]]), Golden.from_bytes(after[pair[1]]))


def compare_goldens(old: Golden, new: Golden) -> Numbers:
    """How two sets of expected answers compare, within the product's tolerance, old ones as the reference.

    Cases of the same seeds are compared; without one, or with tensors of other sizes, nothing can be said.
    """
    if (old.inputs, old.outputs) != (new.inputs, new.outputs):
        return Numbers.INCOMPARABLE
    answers = {case.seeds: case.outputs for case in old.cases}
    shared = [(answers[case.seeds], case.outputs) for case in new.cases if case.seeds in answers]
    if not shared:
        return Numbers.INCOMPARABLE
    if all(first == second for first, second in shared):
        return Numbers.SAME
    within = all(
        agreement.compare("", np.frombuffer(ours, "<f4"), np.frombuffer(theirs, "<f4")).holds
        for first, second in shared
        for theirs, ours in zip(first, second, strict=True)
    )
    return Numbers.WITHIN if within else Numbers.BEYOND


def _facts(view: BundleView, payload: PayloadView) -> TargetFacts:
    header_blob, config_blob = payload.files[HEADER], payload.files[CONFIG]
    header = PayloadHeader.from_bytes(view.folder.read_blob(header_blob), oci.blob_name(header_blob.digest))
    name = oci.blob_name(config_blob.digest)
    config = canonical.loads(view.folder.read_blob(config_blob), strict=True, name=name)
    with as_file(view, payload.files[GOLDEN], GOLDEN) as path:
        golden = Golden.from_bytes(path.read_bytes(), oci.blob_name(payload.files[GOLDEN].digest))
    features = header.variants[0].cpu_features
    for variant in header.variants[1:]:
        features &= variant.cpu_features
    try:
        inputs, outputs = (tuple(map(_tensor, config[key])) for key in ("inputs", "outputs"))
    except (KeyError, TypeError, ValueError) as reason:
        raise fault(Code.PAYLOAD_INVALID, name, f"{CONFIG} of {payload.target} does not list its tensors") from reason
    return TargetFacts(
        payload=payload.digest,
        inputs=inputs,
        outputs=outputs,
        ir_version=header.ir_version,
        abi_version=header.abi_version,
        api_version=_api_version(view, payload),
        machine=header.machine,
        cpu_features=features,
        golden=payload.files[GOLDEN].digest,
        absolute=golden.absolute,
        relative=golden.relative,
    )


def _tensor(value: Mapping[str, Any]) -> Tensor:
    return Tensor(str(value["name"]), str(value["dtype"]), tuple(int(dim) for dim in value["shape"]))


def _api_version(view: BundleView, payload: PayloadView) -> int:
    blob = payload.files[INCLUDE]
    found = _API.search(view.folder.read_blob(blob))
    if found is None:
        file = oci.blob_name(blob.digest)
        what = f"{file} is not {INCLUDE}"
        raise FarmError(Code.PAYLOAD_INVALID, what, "it names no version", oci_bundle.AGAIN, {"file": file})
    return int(found[1])
