"""Payloads whose binaries are text, as a compile leaves them.

A stand-in for the compiler runs this in a process of its own for each compile, dozens of times in a test: so nothing is
imported here that takes long.
"""

from __future__ import annotations

from pathlib import Path

from containers import result
from kernelfarm import canonical, device, digest, nouns
from kernelfarm.device import Blob, BlobKind, PayloadHeader, Variant
from kernelfarm.golden import Case, Golden
from kernelfarm.links import Input, Linked, Links, Origin, Source
from toolchains import features, target

TOOLS = (nouns.ToolIdentity("ziglang", "0.17.0", digest.of_bytes(b"zig")),)
MODEL = nouns.Model("cls", digest.of_bytes(b"a model"), 7, before=digest.of_bytes(b"a model of somebody"))
GOLDEN = Golden((12,), (8,), (Case((0,), (bytes(8),)), Case((1 << 32,), (bytes(8),)))).to_bytes()
"""For one input of three values and one output of two, which is expected to be 0."""
SOURCE = Source("runtime/src/api.c", digest.of_bytes(b"api"), 3)
LINKS = Links(
    (
        Linked("kernels.so", (Input("kf_1.o", digest.of_bytes(b"kf"), Origin.MODEL, 2, (".text",)),)),
        Linked(
            "libmedia_engine.so",
            (made := Input("src-api.o", digest.of_bytes(b"o"), Origin.SOURCES, 1, (".text",), (SOURCE.name,)),),
        ),
        Linked("media-run", (made,)),
    ),
    (SOURCE,),
)
"""What such a payload says that it was linked from."""


def compiled(folder: Path, name: str, *, model: nouns.Model = MODEL, salt: str = "", links: Links = LINKS) -> Path:
    """What a compile would leave of such a payload: all but the notices and the bill of materials."""
    found = target.load(name)
    folder.mkdir(parents=True)
    kernels = f"kernels for {name} {salt}".encode()
    weights = b"weights" * 8
    blobs = (
        Blob(BlobKind.KERNELS, digest.of_bytes(kernels), len(kernels)),
        Blob(BlobKind.WEIGHTS, digest.of_bytes(weights), len(weights)),
        Blob(BlobKind.GOLDEN, digest.of_bytes(GOLDEN), len(GOLDEN)),
    )
    mask = features.mask(found.machine, found.cpu.required)
    header = PayloadHeader(name, 62, (Variant(mask, found.preference, 0, 1),), blobs)
    config = {
        "schema": "payload/1",
        "model": {"name": model.name, "digest": model.digest},
        "target": {"name": name, "digest": found.digest},
        "ir_version": device.IR_VERSION,
        "abi_version": device.ABI_VERSION,
        "tools": {tool.name: {"version": tool.version, "digest": tool.digest} for tool in TOOLS},
        "inputs": [{"name": "x", "dtype": "f32", "shape": [1, 3]}],
        "outputs": [{"name": "y", "dtype": "f32", "shape": [1, 2]}],
    }
    files = {
        "config.json": canonical.dumps(config),
        "golden.bin": GOLDEN,
        "hardening.json": canonical.dumps({"schema": "hardening/1"}),
        "kernels.so": kernels,
        "libmedia_engine.so": b"library",
        "links.json": canonical.encode(links),
        "media-run": f"program of {name}".encode(),
        "media.hdr": header.to_bytes(),
        "media_engine.h": b"#define MEDIA_API_VERSION 1u\n",
        "weights.bin": weights,
    }
    for title, data in files.items():
        (folder / title).write_bytes(data)
    return folder


def write_result(in_dir: Path, out: Path, *, salt: str = "") -> None:
    """What a compile child leaves: a payload for the request in `in_dir`, and result.json."""
    request = canonical.loads((in_dir / "request.json").read_bytes(), strict=True)
    model = (in_dir / request["model"]).read_bytes()
    noun = nouns.Model(request["model_name"], digest.of_bytes(model), len(model))
    folder = compiled(out / "payload", request["target"]["name"], model=noun, salt=salt)
    files = {
        path.name: {"digest": digest.of_file(path), "size": path.stat().st_size} for path in sorted(folder.iterdir())
    }
    stages = [{"name": "import", "digest": digest.of_bytes(model)}]
    document = {"schema": result.SCHEMA, "files": files, "stages": stages}
    (out / "result.json").write_bytes(canonical.dumps(document))
