"""Sizes of dimensions that are not known yet: canonical integer polynomials with floor division.

Two expressions that describe the same size by these rules are equal and print alike, so that `s0` stays `s0` however
many operators it passes through. Symbols stand for integers >= 1.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import gcd

MAX_TERMS = 64
"""An expression with more terms is refused (`ShapeTooComplex`): products of sums would grow without bound."""
MAX_ATOMS = 256
"""The same for the symbols inside a quotient, those of nested quotients included."""


class ShapeTooComplex(ValueError):
    """A symbolic size is over `MAX_TERMS` or `MAX_ATOMS`."""


@dataclass(frozen=True, slots=True)
class FloorDiv:
    """The floor of `numerator` / `divisor`, divisor >= 2, in lowest terms."""

    numerator: SymbolicDim
    divisor: int
    atoms: int = field(compare=False)
    """Number of symbols in the numerator, counted anew at each occurrence."""

    def __str__(self) -> str:
        text = f"({self.numerator})" if len(self.numerator.terms) > 1 else str(self.numerator)
        return f"({text} floordiv {self.divisor})"


Monomial = tuple["str | FloorDiv", ...]
"""A product of atoms, sorted by their text; the empty product is 1."""


@dataclass(frozen=True, slots=True)
class SymbolicDim:
    """A sum of monomials with integer coefficients: `terms` is sorted, without zeros, and never a constant alone."""

    terms: tuple[tuple[Monomial, int], ...]

    def __str__(self) -> str:
        text = " + ".join(_term_text(monomial, factor) for monomial, factor in self.terms)
        return text.replace("+ -", "- ")

    def symbols(self) -> frozenset[str]:
        """Names of all symbols that the size depends on."""
        found: set[str] = set()
        for monomial, _ in self.terms:
            for atom in monomial:
                found |= {atom} if isinstance(atom, str) else atom.numerator.symbols()
        return frozenset(found)


Dim = int | SymbolicDim


def symbol(name: str) -> SymbolicDim:
    """The size called `name`, for example "s0"."""
    return SymbolicDim((((name,), 1),))


def add(left: Dim, right: Dim) -> Dim:
    """left + right."""
    total = _polynomial(left)
    for monomial, factor in _polynomial(right).items():
        total[monomial] = total.get(monomial, 0) + factor
    return _dim(total)


def multiply(left: Dim, right: Dim) -> Dim:
    """left * right."""
    product: dict[Monomial, int] = {}
    for monomial_left, factor_left in _polynomial(left).items():
        for monomial_right, factor_right in _polynomial(right).items():
            monomial = tuple(sorted(monomial_left + monomial_right, key=str))
            product[monomial] = product.get(monomial, 0) + factor_left * factor_right
    return _dim(product)


def negate(value: Dim) -> Dim:
    """-value."""
    return multiply(-1, value)


def subtract(left: Dim, right: Dim) -> Dim:
    """left - right."""
    return add(left, negate(right))


def floor_divide(value: Dim, divisor: int) -> Dim:
    """The floor of value / divisor for divisor >= 1.

    Rules (exact for all integers): multiples of the divisor move out; common factors cancel, the constant rounding
    down; a nested floor division by b becomes one by a * b.
    """
    if divisor < 1:
        raise ValueError("the divisor must be positive")
    if isinstance(value, int):
        return value // divisor
    whole: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for monomial, factor in value.terms:
        quotient, remainder = divmod(factor, divisor)
        whole[monomial], rest[monomial] = quotient, remainder
    return add(_dim(whole), _proper_floor_divide(_dim(rest), divisor))


def ceil_divide(value: Dim, divisor: int) -> Dim:
    """The ceiling of value / divisor for divisor >= 1."""
    return floor_divide(add(value, divisor - 1), divisor)


def exact_divide(value: Dim, divisor: Dim) -> Dim | None:
    """value / divisor where that is certain to be an integer (a common factor of all terms); else None."""
    if value == divisor:
        return 1
    if value == 0:
        return 0 if divisor != 0 else None
    terms = _polynomial(divisor)
    if len(terms) != 1:
        return None
    ((atoms, factor),) = terms.items()
    if factor == 0:
        return None
    quotient: dict[Monomial, int] = {}
    for monomial, coefficient in _polynomial(value).items():
        rest = _without(monomial, atoms)
        if rest is None or coefficient % factor:
            return None
        quotient[rest] = coefficient // factor
    return _dim(quotient)


def product(values: tuple[Dim, ...]) -> Dim:
    """The product of all values; 1 for none."""
    total: Dim = 1
    for value in values:
        total = multiply(total, value)
    return total


def substitute(value: Dim, sizes: Mapping[str, int]) -> Dim:
    """The size with the symbols in `sizes` replaced by numbers."""
    if isinstance(value, int):
        return value
    total: Dim = 0
    for monomial, factor in value.terms:
        term: Dim = factor
        for atom in monomial:
            term = multiply(term, _substitute_atom(atom, sizes))
        total = add(total, term)
    return total


def parse(text: str) -> Dim:
    """The size that `str` printed. Raises `ValueError` for other text."""
    tokens = _TOKEN.findall(text)
    if "".join(tokens) != text.replace(" ", ""):
        raise ValueError(f"{text!r} is not a size")
    value, position = _parse_sum(tokens, 0)
    if position != len(tokens):
        raise ValueError(f"{text!r} is not a size")
    return value


_TOKEN = re.compile(r"floordiv|[A-Za-z_][A-Za-z_0-9]*|[0-9]+|[()+*-]")


def _term_text(monomial: Monomial, factor: int) -> str:
    atoms = [str(atom) for atom in monomial]
    if factor == -1 and atoms:
        return "-" + "*".join(atoms)
    return "*".join(([str(factor)] if factor != 1 or not atoms else []) + atoms)


def _polynomial(value: Dim) -> dict[Monomial, int]:
    return {(): value} if isinstance(value, int) else dict(value.terms)


def _dim(polynomial: Mapping[Monomial, int]) -> Dim:
    terms = {monomial: factor for monomial, factor in polynomial.items() if factor}
    if set(terms) <= {()}:
        return terms.get((), 0)
    if len(terms) > MAX_TERMS:
        raise ShapeTooComplex(f"more than {MAX_TERMS} terms")
    ordered = sorted(terms.items(), key=lambda term: (not term[0], -len(term[0]), [str(atom) for atom in term[0]]))
    return SymbolicDim(tuple(ordered))


def _proper_floor_divide(value: Dim, divisor: int) -> Dim:
    """Floor division of an expression whose coefficients all lie in [0, divisor)."""
    if divisor == 1 or isinstance(value, int):
        return value // divisor if isinstance(value, int) else value
    terms = _polynomial(value)
    constant = terms.pop((), 0)
    common = gcd(divisor, *terms.values())
    if common > 1:
        reduced = add(_dim({monomial: factor // common for monomial, factor in terms.items()}), constant // common)
        return floor_divide(reduced, divisor // common)
    if len(terms) == 1:
        ((atoms, factor),) = terms.items()
        if factor == 1 and len(atoms) == 1 and isinstance(atoms[0], FloorDiv):
            inner = atoms[0]  # floor((floor(n / a) + c) / b) = floor((n + a c) / (a b))
            return floor_divide(add(inner.numerator, inner.divisor * constant), inner.divisor * divisor)
    assert isinstance(value, SymbolicDim)
    count = sum(1 if isinstance(atom, str) else atom.atoms for monomial, _ in value.terms for atom in monomial)
    if count > MAX_ATOMS:
        raise ShapeTooComplex(f"more than {MAX_ATOMS} symbols in a quotient")
    return SymbolicDim((((FloorDiv(value, divisor, count),), 1),))


def _without(monomial: Monomial, atoms: Monomial) -> Monomial | None:
    rest = list(monomial)
    for atom in atoms:
        if atom not in rest:
            return None
        rest.remove(atom)
    return tuple(rest)


def _substitute_atom(atom: str | FloorDiv, sizes: Mapping[str, int]) -> Dim:
    if isinstance(atom, str):
        return sizes.get(atom, symbol(atom))
    return floor_divide(substitute(atom.numerator, sizes), atom.divisor)


def _parse_sum(tokens: list[str], position: int) -> tuple[Dim, int]:
    total: Dim = 0
    sign = 1
    while True:
        while position < len(tokens) and tokens[position] in "+-":
            sign = -sign if tokens[position] == "-" else sign
            position += 1
        term, position = _parse_product(tokens, position)
        total = add(total, multiply(sign, term))
        sign = 1
        if position == len(tokens) or tokens[position] not in "+-":
            return total, position


def _parse_product(tokens: list[str], position: int) -> tuple[Dim, int]:
    value, position = _parse_atom(tokens, position)
    while position < len(tokens) and tokens[position] == "*":
        factor, position = _parse_atom(tokens, position + 1)
        value = multiply(value, factor)
    return value, position


def _parse_atom(tokens: list[str], position: int) -> tuple[Dim, int]:
    token = tokens[position] if position < len(tokens) else ""
    if token.isdigit():
        return int(token), position + 1
    if token == "(":
        value, position = _parse_sum(tokens, position + 1)
        if tokens[position : position + 1] == ["floordiv"]:
            divisor, position = _parse_atom(tokens, position + 1)
            if not isinstance(divisor, int):
                raise ValueError("a divisor is a number")
            value = floor_divide(value, divisor)
        if tokens[position : position + 1] != [")"]:
            raise ValueError("unbalanced parentheses")
        return value, position + 1
    if token and (token[0].isalpha() or token[0] == "_") and token != "floordiv":
        return symbol(token), position + 1
    raise ValueError(f"unexpected {token or 'end'!r}")
