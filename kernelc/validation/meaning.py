"""What a group must answer for given operands, and how far off a right kernel may be.

The second is a running error bound (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., section 3.3): with
each value goes a size, the magnitude of what was added up on the way to it, carried through each operation by its
derivative. An answer may be off by a small multiple of that size, so that sums that cancel are no false alarm, and a
wrong term of a sum that does not is one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelc.graph import Node
from kernelc.numerics import reference

Array = NDArray[Any]

TOLERANCE = 2.0**-14
"""Of the size. A sum of n terms in any order is off by at most n times 2^-24 of the sum of their magnitudes (Higham,
section 4.2): this leaves room for 1,024 terms that all err the same way, and in practice for any number."""


@dataclass(frozen=True, slots=True)
class Meaning:
    """`value` in float64; `slack`, of its shape, is how far off an answer may be: infinite where nothing is known."""

    value: Array
    slack: Array


def meaning(nodes: Sequence[Node], operands: Mapping[str, Array]) -> Meaning:
    """The result of the last of `nodes` by the reference interpreter; `operands` are float32, by value name."""
    values = {name: reference.widened(value) for name, value in operands.items()}
    sizes = {name: np.abs(value) for name, value in values.items()}
    with np.errstate(all="ignore"):
        for node in nodes:
            (name,) = node.outputs
            values[name] = reference.apply(node, [values[each] for each in node.inputs])
            terms = [(values[each], sizes[each]) for each in node.inputs]
            size = _SIZES.get(node.op, _largest)(node, terms, values[name])
            sizes[name] = np.broadcast_to(_at_least(size, values[name]), values[name].shape)
    slack = TOLERANCE * sizes[name]
    return Meaning(values[name], np.where(np.isnan(slack), np.inf, slack))


def _at_least(size: Array, value: Array) -> Array:
    """The size, no smaller than the value; what is known to be NaN keeps it."""
    return np.asarray(np.where(np.isnan(value), size, np.maximum(size, np.abs(value))))


Terms = Sequence[tuple[Array, Array]]
"""Operands with their sizes."""


def _largest(_node: Node, terms: Terms, _result: Array) -> Array:
    """Of what chooses, moves or averages elements. Twice, since weights of a cubic resize go beyond one."""
    return np.asarray(2 * max(np.max(size, initial=0.0) for _, size in terms))


def _conv(_node: Node, terms: Terms, _result: Array) -> Array:
    (_, value), (weight, _), *_bias = terms
    return np.asarray(_bound(value, np.abs(weight).sum(axis=(1, 2, 3)), terms)[:, None, None])


def _conv_transpose(node: Node, terms: Terms, _result: Array) -> Array:
    (_, value), (weight, _), *_bias = terms
    group = node.integer("group")
    grouped = np.abs(weight).reshape(group, -1, *weight.shape[1:])
    return np.asarray(_bound(value, grouped.sum(axis=(1, 3, 4)).reshape(-1), terms)[:, None, None])


def _matmul(_node: Node, terms: Terms, _result: Array) -> Array:
    (_, left), (right, _), *_bias = terms
    return _bound(left, np.abs(right).sum(axis=-2, keepdims=right.ndim > 2), terms)


def _bound(value: Array, weights: Array, terms: Terms) -> Array:
    """The largest element of `value` times the sums of magnitudes in `weights`, and the bias."""
    bias = terms[2][1] if len(terms) > 2 else 0.0
    return np.asarray(np.max(value, initial=0.0) * weights + bias)


def _sum(_node: Node, terms: Terms, _result: Array) -> Array:
    (_, first), (_, second) = terms
    return np.asarray(first + second)


def _product(_node: Node, terms: Terms, _result: Array) -> Array:
    (left, first), (right, second) = terms
    return np.asarray(first * np.abs(right) + second * np.abs(left))


def _quotient(_node: Node, terms: Terms, result: Array) -> Array:
    """Unknown where the divisor may be 0."""
    (_, first), (right, second) = terms
    size = (first + second * np.abs(result)) / np.abs(right)
    return np.where(np.abs(right) <= TOLERANCE * second, np.nan, size)


def _root(_node: Node, terms: Terms, result: Array) -> Array:
    """Unknown where the operand may have either sign; of a negative one it is known to be NaN."""
    ((value, size),) = terms
    return np.where(np.abs(value) <= TOLERANCE * size, np.nan, np.where(value < 0, 0, size / result))


def _slope(most: float) -> Callable[[Node, Terms, Array], Array]:
    """Of a function of one operand whose derivative is at most that steep."""
    return lambda _node, terms, _result: np.asarray(most * terms[0][1])


def _leaky_relu(node: Node, terms: Terms, _result: Array) -> Array:
    return np.asarray(max(1.0, abs(node.real("alpha"))) * terms[0][1])


def _prelu(_node: Node, terms: Terms, _result: Array) -> Array:
    """Either side of 0, since rounding may change the sign of what is near it."""
    (value, first), (slope, second) = terms
    return np.asarray(np.maximum(np.abs(slope), 1) * first + np.abs(value) * second)


def _hard_sigmoid(node: Node, terms: Terms, _result: Array) -> Array:
    return np.asarray(abs(node.real("alpha")) * terms[0][1] + abs(node.real("beta")))


def _softmax(node: Node, terms: Terms, result: Array) -> Array:
    """exp(x) is off by as much of itself as x is off."""
    ((_, size),) = terms
    return np.asarray(result * (1 + 2 * np.max(size, axis=node.integer("axis"), keepdims=True)))


def _layer_norm(node: Node, terms: Terms, _result: Array) -> Array:
    ((value, size),) = terms
    largest = np.max(size, axis=-1, keepdims=True)
    deviation = np.sqrt(np.var(value, axis=-1, keepdims=True) + node.real("epsilon"))
    return np.asarray(2 * largest / deviation * (1 + largest / deviation))


_SIZES: Mapping[str, Callable[[Node, Terms, Array], Array]] = {
    "add": _sum,
    "clip": _slope(1.0),
    "conv": _conv,
    "conv_transpose": _conv_transpose,
    "div": _quotient,
    "hard_sigmoid": _hard_sigmoid,
    "hard_swish": _slope(1.5),
    "layer_norm": _layer_norm,
    "leaky_relu": _leaky_relu,
    "matmul": _matmul,
    "mul": _product,
    "prelu": _prelu,
    "relu": _slope(1.0),
    "sigmoid": _slope(1.0),
    "silu": _slope(1.1),
    "softmax": _softmax,
    "sqrt": _root,
    "sub": _sum,
    "tanh": _slope(1.0),
}
