"""ScanCode's command line with a short cut: `python -I _scancode.py OPTIONS`, in the scanner's own environment.

For each stretch of a file it compares the words with those of all 30,000 rules, one after another, and drops at once
those with too few legal words in common: nine tenths of its time. Here an index by legal words names the rules that
have enough of them, and only these are compared, by its own code: what it finds is the same.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Collection, Iterable
from itertools import takewhile
from typing import Any

from licensedcode import match_set
from scancode.cli import scancode

_compare = match_set.compute_candidates


class _ByWord:
    """The rules of an index by each legal word in them. Legal words have the lowest numbers."""

    def __init__(self, index: Any) -> None:
        self._legal = index.len_legalese
        self._rules: list[list[int]] = [[] for _ in range(self._legal)]
        self._least = [max(1, rule.get_min_high_matched_length(unique=True)) for rule in index.rules_by_rid]
        for rule, words in enumerate(index.sets_by_rid):
            for word in self._of(words or ()):
                self._rules[word].append(rule)

    def _of(self, words: Iterable[int]) -> Iterable[int]:
        return takewhile(lambda word: word < self._legal, sorted(words))

    def enough_in_common(self, words: Iterable[int], rules: Collection[int]) -> set[int]:
        """Those of the rules that have as many legal words in common with `words` as each demands."""
        shared = Counter[int]()
        for word in self._of(words):
            shared.update(self._rules[word])
        return {rule for rule, count in shared.items() if count >= self._least[rule] and rule in rules}


_known: list[tuple[Any, _ByWord]] = []


def compute_candidates(query_run: Any, idx: Any, matchable_rids: Collection[int], **options: Any) -> Any:
    """As ScanCode's, which takes the rules to look at as `matchable_rids`."""
    if not _known or _known[0][0] is not idx:
        _known[:] = [(idx, _ByWord(idx))]
    words, _counts = match_set.build_set_and_mset(query_run.matchable_tokens())
    return _compare(query_run, idx, _known[0][1].enough_in_common(words, matchable_rids), **options)


if __name__ == "__main__":
    match_set.compute_candidates = compute_candidates
    sys.exit(scancode())
