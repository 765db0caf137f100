"""Benchmarks run seldom: that each of them can still begin is seen here."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

import benchmarks

MODULES = sorted(one.name for one in pkgutil.iter_modules(benchmarks.__path__, "benchmarks.") if not one.ispkg)


def test_there_are_benchmarks() -> None:
    assert "benchmarks.layout" in MODULES


@pytest.mark.parametrize("name", MODULES)
def test_a_benchmark_finds_what_it_imports(name: str) -> None:
    assert importlib.import_module(name).__doc__
