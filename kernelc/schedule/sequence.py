"""The transform-dialect sequence that turns one kernel's linalg into vector code.

The payload already walks tiles, so the sequence tiles each reduction by one, folds unit dimensions away, vectorises the
matched generics (never "all children": that once took outer slices too and miscompiled), and hoists the accumulators.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

ANY = "!transform.any_op"
MEMORY = "memory"
"""Name of the sequence of `memory_sequence`."""


@dataclass(frozen=True, order=True, slots=True)
class Reduction:
    """Generics with `parallel` loops followed by `reduction` loops; the payload tags them with `tag`."""

    parallel: int
    reduction: int

    @property
    def tag(self) -> str:
        """The attribute on the payload's generics."""
        return f"reduce_{self.parallel}_{self.reduction}"


def sequence(reductions: Iterable[Reduction]) -> str:
    """The text of `@__transform_main` and the end of the module."""
    lines = [f"transform.named_sequence @__transform_main(%m: {ANY} {{transform.consumed}}) {{"]
    for number, kind in enumerate(sorted(set(reductions))):
        sizes = [0] * kind.parallel + [1] * kind.reduction
        loops = ", ".join(f"%l{number}_{loop}" for loop in range(kind.reduction))
        results = ", ".join([ANY] * (kind.reduction + 1))
        lines += [
            f"%g{number} = {_match(f'attributes {{{kind.tag}}}')}",
            f"%t{number}, {loops} = transform.structured.tile_using_for %g{number} tile_sizes {sizes}"
            f" : ({ANY}) -> ({results})",
        ]
    lines += [
        f'%f = transform.structured.match ops{{["func.func"]}} in %m : ({ANY}) -> {ANY}',
        *_patterns("linalg.fold_unit_extent_dims_via_slices", "canonicalization", _MERGE),
        f"transform.apply_cse to %f : {ANY}",
        f"%all = {_match('')}",
        f"transform.structured.vectorize %all : {ANY}",
        *_patterns(
            "vector.transfer_permutation_patterns",
            "vector.lower_contraction lowering_strategy = outerproduct",
            "vector.lower_outerproduct",
            "canonicalization",
            "tensor.fold_tensor_subset_ops_into_vector_transfers",
        ),
        f"%h = transform.structured.hoist_redundant_vector_transfers %f : ({ANY}) -> {ANY}",
        "transform.yield",
        "}",
        "}",
    ]
    return "\n".join(lines)


def memory_sequence(index_bits: int) -> str:
    """A sequence that lowers loads and stores of vectors to the llvm dialect with addresses of `index_bits` bits.

    Transfers have one dimension by then. All else stays: `illegal_ops` are what must go.
    """
    return "\n".join([
        f"transform.named_sequence @{MEMORY}(%m: {ANY} {{transform.readonly}}) {{",
        f'%f = transform.structured.match ops{{["func.func"]}} in %m : ({ANY}) -> {ANY}',
        *_patterns("vector.lower_transfer max_transfer_rank = 1"),
        "transform.apply_conversion_patterns to %f {",
        "transform.apply_conversion_patterns.vector.vector_to_llvm",
        "} with type_converter {",
        "transform.apply_conversion_patterns.memref.memref_to_llvm_type_converter"
        f" {{index_bitwidth = {index_bits}, use_bare_ptr_call_conv = true}}",
        '} {illegal_ops = ["vector.load", "vector.store"], legal_dialects = ["llvm", "func"], partial_conversion}'
        f" : {ANY}",
        "transform.yield",
        "}",
    ])  # fmt: skip


def with_sequence(module: str, sequence_text: str) -> str:
    """The module's text with one more sequence at its end."""
    end = module.rindex("}")
    return f"{module[:end]}{sequence_text}\n{module[end:]}"


_MERGE = "tensor.merge_consecutive_insert_extract_slice"


def _match(what: str) -> str:
    return f'transform.structured.match ops{{["linalg.generic"]}} {what} in %m : ({ANY}) -> {ANY}'


def _patterns(*names: str) -> list[str]:
    body = "\n".join(f"transform.apply_patterns.{name}" for name in names)
    return [f"transform.apply_patterns to %f {{\n{body}\n}} : {ANY}"]
