"""What the parent of a compile adds to its result, and what it refuses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from containers import result
from containers.result import Accepted
from farm import describe, worker
from farm.actions import Job
from farm.payload import MEDIA_TYPES
from kernelfarm import canonical, digest
from kernelfarm.errors import Code, FarmError
from kernelfarm.store import ContentStore
from tests.support import farms, payloads


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return farms.job(ContentStore(tmp_path / "store"))


@pytest.fixture
def accepted(tmp_path: Path, job: Job) -> Accepted:
    store = ContentStore(tmp_path / "store")
    worker.prepare(tmp_path / "in", job, store, 1)
    payloads.write_result(tmp_path / "in", tmp_path / "out")
    return result.accept(tmp_path / "out")


def test_the_result_becomes_a_whole_payload(job: Job, accepted: Accepted) -> None:
    made = describe.completed(job, accepted)

    assert [file.name for file in made.files] == sorted(MEDIA_TYPES)
    assert sorted(path.name for path in made.folder.iterdir()) == sorted(MEDIA_TYPES)
    for file in made.files:
        assert file.digest == digest.of_file(made.folder / file.name)
    describe.require(job, made.folder)


def test_a_bill_for_another_recipe_is_another(job: Job, accepted: Accepted) -> None:
    made = describe.completed(job, accepted)
    recipe = replace(job.action.recipe, compiler_source=digest.of_bytes(b"another"))
    other = replace(job, action=replace(job.action, recipe=recipe, **keys(job, recipe)))

    with pytest.raises(FarmError) as caught:
        describe.require(other, made.folder)

    assert caught.value.code is Code.RESULT_REFUSED


def keys(job: Job, recipe: object) -> dict[str, object]:
    from kernelfarm.nouns import RecipeInputs, execution_key, recipe_key

    assert isinstance(recipe, RecipeInputs)
    made = recipe_key(recipe)
    return {"recipe_key": made, "execution_key": execution_key(made, job.action.execution)}


def test_a_compile_that_wrote_no_true_list_of_links_is_refused(job: Job, accepted: Accepted) -> None:
    (accepted.folder / "links.json").write_bytes(canonical.dumps({"schema": "links/1", "files": [], "sources": []}))

    with pytest.raises(FarmError) as caught:
        describe.completed(job, accepted)

    assert caught.value.code is Code.RESULT_REFUSED
    assert "links.json" in caught.value.why


def test_a_bill_that_the_compile_wrote_itself_is_never_taken(job: Job, accepted: Accepted) -> None:
    (accepted.folder / "sbom.cdx.json").write_bytes(b"{}")

    with pytest.raises(FarmError):
        describe.completed(job, accepted)
    with pytest.raises(FarmError) as caught:
        result.accept(accepted.folder.parent)
    assert caught.value.code is Code.RESULT_REFUSED
