"""Rule files of a user on their way into the farm: read once, named by digest, asked for again by a rebuild."""

from __future__ import annotations

from pathlib import Path

import pytest

from farm.rule_files import NO_RULES, UserRules, require
from kernelc import fusion
from kernelfarm import digest
from kernelfarm.errors import Code, FarmError
from kernelfarm.nouns import RuleSet
from kernelfarm.store import ContentStore

MINE = "fusion_rule: {name: mine, pattern: [{op: conv}, {op: clip}]}\n"
RESTING = "fusion_rule: {name: unready, pattern: [{op: conv}, {op: onnx.Gelu}]}\n"


@pytest.fixture
def store(tmp_path: Path) -> ContentStore:
    return ContentStore(tmp_path / "store")


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def loaded(tmp_path: Path, *texts: str) -> UserRules:
    return UserRules.load([written(tmp_path / f"{number}.yaml", text) for number, text in enumerate(texts)])


def test_rules_go_into_the_store_in_canonical_form_under_their_digest(tmp_path: Path, store: ContentStore) -> None:
    found = loaded(tmp_path, f"# why\n{MINE}")
    named = found.put(store)
    assert named == RuleSet(digest.of_bytes(found.data), len(found.data))
    (rule,) = fusion.load(found.files)
    assert store.get_bytes(named.digest) == fusion.to_json([rule])


def test_a_rule_that_rests_is_told_with_what_it_lacks(tmp_path: Path) -> None:
    found = loaded(tmp_path, MINE, RESTING)
    assert found.names == ("mine", "unready")
    assert [one.describe() for one in found.resting] == ["rule unready rests: the dialect has no gelu"]
    assert found.to_json()["resting"] == [{"name": "unready", "lacks": ["gelu"]}]


def test_no_file_and_a_file_without_rules_are_no_rules(tmp_path: Path, store: ContentStore) -> None:
    assert UserRules.load([]) == NO_RULES
    assert NO_RULES.put(store) is None
    assert loaded(tmp_path, "fusion_rules: []\n").put(store) is None
    assert list(store.digests()) == []


def test_what_a_file_becomes_later_does_not_matter(tmp_path: Path, store: ContentStore) -> None:
    found = loaded(tmp_path, MINE)
    before = found.put(store)
    written(found.files[0], "nonsense")
    assert found.put(store) == before


def test_a_rebuild_finds_rules_in_the_store_or_takes_them_from_files(tmp_path: Path, store: ContentStore) -> None:
    found = loaded(tmp_path, MINE)
    wanted = found.put(ContentStore(tmp_path / "elsewhere"))
    assert wanted is not None
    with pytest.raises(FarmError) as caught:
        require(wanted, store, NO_RULES)
    assert (caught.value.code, caught.value.detail) == (Code.RULES_UNAVAILABLE, {"digest": wanted.digest})
    require(wanted, store, found)
    require(wanted, store, NO_RULES)
    require(None, store, NO_RULES)


def test_a_rebuild_takes_no_other_rules(tmp_path: Path, store: ContentStore) -> None:
    wanted = loaded(tmp_path, MINE).put(store)
    other = loaded(tmp_path, MINE.replace("clip", "relu"))
    for asked in (wanted, None):
        with pytest.raises(FarmError) as caught:
            require(asked, store, other)
        assert caught.value.code is Code.RULES_UNAVAILABLE
