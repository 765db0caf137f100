"""A run of `make bench` as a picture: for each model bars of ours by each peer's time, in SVG."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

from benchmarks.records import Record
from kernelfarm import files

WIDTH, ROW, LEFT, LIMIT = 900, 14, 190, 2.0
"""Pixels; and the ratio at which bars are cut."""
COLOURS: Mapping[str, str] = {"onnxruntime": "#4477aa", "openvino": "#66ccee", "iree": "#228833", "tvm": "#ccbb44"}


def write(record: Record, path: Path) -> None:
    """Write the picture."""
    files.atomic_write(path, ElementTree.tostring(draw(record), encoding="utf-8"))


def draw(record: Record) -> ElementTree.Element:
    """The picture: ratios below 1, left of the line, are models on which ours is faster."""
    rows = _rows(record)
    height = ROW * (len(rows) + 3) + 10
    svg = ElementTree.Element("svg", xmlns="http://www.w3.org/2000/svg", width=str(WIDTH), height=str(height))
    svg.set("font-family", "sans-serif")
    svg.set("font-size", "11")
    _text(svg, 4, ROW, f"time of ours by that of each peer, {record.target}, {record.threads} thread(s)")
    scale = (WIDTH - LEFT - 60) / LIMIT
    for number, (label, peer, ratio) in enumerate(rows):
        y = ROW * (number + 2)
        _text(svg, 4, y + ROW - 4, label)
        width = scale * min(ratio, LIMIT)
        _box(svg, LEFT, y + 2, width, ROW - 4, COLOURS.get(peer, "#888888"))
        _text(svg, LEFT + width + 4, y + ROW - 4, f"{ratio:.2f} {peer}")
    _box(svg, LEFT + scale, ROW * 2, 1, ROW * len(rows), "#aa3377")
    return svg


def _rows(record: Record) -> list[tuple[str, str, float]]:
    rows = []
    for entry in record.models:
        if entry.figures is None:
            continue
        ratios = {name: entry.figures.ratio(name) for name in entry.figures.sides if name != "ours"}
        known = [(name, ratio) for name, ratio in ratios.items() if ratio is not None]
        rows += [("" if number else entry.model, name, ratio) for number, (name, ratio) in enumerate(known)]
    return rows


def _text(parent: ElementTree.Element, x: float, y: float, words: str) -> None:
    ElementTree.SubElement(parent, "text", x=f"{x:.1f}", y=f"{y:.1f}").text = words


def _box(parent: ElementTree.Element, x: float, y: float, width: float, height: float, colour: str) -> None:
    sizes = {"x": f"{x:.1f}", "y": f"{y:.1f}", "width": f"{width:.1f}", "height": f"{height:.1f}"}
    ElementTree.SubElement(parent, "rect", {**sizes, "fill": colour})
