"""The rules of scrubbing, as every payload lists them, and the few facts that the child and its parent share."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

SCHEMA = "scrub/1"
RULES: Sequence[tuple[str, str]] = (
    ("kept", "Only fields that decide what is computed are copied; every other field, known or not, is left out."),
    ("metadata", "Metadata, doc strings, producer, domain and version of the model, denotations: left out."),
    ("unused", "Functions, training graphs, quantisation notes, types of intermediate values, weights that nothing "
               "reads, operator sets that no node uses: left out."),
    ("internal-names", "Nodes lose their names; weights, intermediate values and symbolic sizes are numbered."),
    ("interface-names", "Names of inputs and outputs stay, unless they hold a path, an e-mail address, the address of "
                        "a page or a listed word: then they are numbered as scrubbed_input_N and scrubbed_output_N."),
    ("attribute-texts", "Text attributes stay where they are one of the words that operators take, else they become "
                        "the word scrubbed."),
    ("unknown-words", "Names of operators, attributes and domains that ONNX does not define become the word scrubbed; "
                      "a misspelt operator stays unless it holds what an interface name may not hold."),
    ("external-data", "External data is packed into one file that holds the bytes in use and nothing else."),
)  # fmt: skip
"""Name and effect of each rule. No rule may depend on a machine, and none may tell a listed word."""

REPLACEMENT = "scrubbed"
DATA_FILE = "weights.data"
"""The one file of external data of a scrubbed model."""
REPORT, WORDS, RESULT = "report.json", "words.json", "scrubbed.onnx"
"""Files of the child's folder: what it was told, and what it leaves there."""
_ALIGNMENT = 64
_NUMBERED = re.compile(rf"{REPLACEMENT}_(?:input|output)_\d+_*")


def aligned(offset: int) -> int:
    """The next offset in `DATA_FILE`, in bytes, at which a tensor may begin."""
    return -(-offset // _ALIGNMENT) * _ALIGNMENT


def interface_name(kind: str, index: int, kept: Iterable[str]) -> str:
    """The name of the input or output (`kind`) number `index` in place of one that may not stay."""
    name, taken = f"{REPLACEMENT}_{kind}_{index}", set(kept)
    while name in taken:
        name += "_"
    return name


def document(inputs: Iterable[str], outputs: Iterable[str]) -> dict[str, Any]:
    """What config.json says about scrubbing, a function of the scrubbed model alone: the rules, and numbered names."""
    renamed = [name for name in (*inputs, *outputs) if _NUMBERED.fullmatch(name)]
    return {"schema": SCHEMA, "rules": [{"name": name, "effect": effect} for name, effect in RULES], "renamed": renamed}
