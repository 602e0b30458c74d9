"""What is kept, and why the rest is not."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path

import pytest
from distill_runs import ANSWER, OTHER, SEARCH, add_record, crop, record_sample, store_in

from vrag.agent.actions import Answer
from vrag.distill.expert_messages import write_turn
from vrag.distill.sample_store import Sample, SampleAttempt, SampleOutcome, SampleStore
from vrag.distill.select import (
    SampleSelection,
    SelectionOptions,
    read_selected,
    select_samples,
    write_selection,
)
from vrag.errors import SampleError
from vrag.model_profiles import PROFILES


def reasons(selection: SampleSelection) -> dict[str, str]:
    return {one.uid: one.reason for one in selection.dropped}


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> SampleStore:
    """One sample for each reason, and two that are good."""
    store = store_in(tmp_path_factory.mktemp("mixed"))
    record_sample(store, "good", SEARCH, ANSWER)
    record_sample(store, "closer", SEARCH, crop(), ANSWER)
    record_sample(store, "low", SEARCH, ANSWER, score=4)
    record_sample(store, "blind", ANSWER)
    record_sample(store, "guess", "<think>I know.</think><search>January ice</search>", ANSWER)
    record_sample(store, "long", SEARCH, *[crop(image=1)] * 5, ANSWER)
    record_sample(store, "invalid", SEARCH, crop(300, 300, 100, 100), ANSWER)
    record_sample(store, "edge", SEARCH, crop(100, 100, 5000, 300), ANSWER)
    record_sample(store, "thoughtless", "<search>passengers in 2024</search>", ANSWER)
    record_sample(store, "mille", SEARCH, crop(0, 0, 1000, 1000), ANSWER, profile=PROFILES["qwen3-vl"])
    uncited = write_turn("It says so.", Answer("48,200"))
    record_sample(store, "uncited", SEARCH, uncited)
    record_sample(store, "unshown", SEARCH, write_turn("It says so.", Answer("48,200 [3].")))
    record_sample(store, "abstains", SEARCH, write_turn("It is not there.", Answer("Not answerable")))
    gone = record_sample(store, "gone", SEARCH, ANSWER)
    store.runs.delete(gone.run or "?")
    broken = SampleAttempt(run="20260101-0", reason="The planner: no answer.")
    add_record(
        store,
        Sample(
            uid="failed",
            query="q",
            reference_answer="a",
            outcome=SampleOutcome.FAILED,
            run=broken.run,
            why=broken.reason,
            attempts=(broken,),
        ),
    )
    return store


def test_every_dropped_sample_says_why(mixed: SampleStore) -> None:
    selection = select_samples(mixed, SelectionOptions())
    kept = {"good", "closer", "mille", "abstains"}
    assert {one.uid for one in selection.kept} == kept
    found = reasons(selection)
    assert found.keys() | kept == {s.uid for s in mixed.samples.read()}
    assert found["low"] == "Its score is 4: So."
    assert found["blind"] == "It has 1 steps, not 2 to 6."
    assert found["guess"] == "It has 0 images, not 1 to 6."
    assert found["long"] == "It has 7 steps, not 2 to 6."
    assert found["invalid"].startswith("A turn was not carried out: The box")
    assert found["edge"] == "The box of turn 2 does not lie inside its picture."
    assert found["thoughtless"] == "A reply does not follow the grammar."
    for uid in ("uncited", "unshown"):
        assert found[uid] == "Its answer cites nothing that was shown, as the instruction asks."
    assert found["gone"].startswith("Its run cannot be read")
    assert found["failed"] == "It is failed: The planner: no answer."


def test_what_is_kept_says_what_it_is(mixed: SampleStore) -> None:
    kept = {one.uid: one for one in select_samples(mixed, SelectionOptions()).kept}
    assert (kept["closer"].steps, kept["closer"].searches, kept["closer"].crops) == (3, 1, 1)
    assert kept["closer"].images == 2
    assert kept["good"].kind == "2 steps, without a crop"


def test_the_choice_is_written_beside_the_samples(mixed: SampleStore) -> None:
    with pytest.raises(SampleError, match="No samples are selected"):
        read_selected(mixed)
    selection = select_samples(mixed, SelectionOptions())
    write_selection(mixed, selection)
    assert read_selected(mixed) == [one.run for one in selection.kept]
    dropped = (mixed.directory / "dropped.jsonl").read_text().splitlines()
    assert {json.loads(line)["uid"]: json.loads(line)["reason"] for line in dropped} == reasons(selection)
    report = json.loads((mixed.directory / "selection.json").read_text())
    assert report["kept"] == 4
    assert report["reasons"]["score"] == 1


@pytest.mark.parametrize("line", ["garbage", "[1]", "{}", '{"run": 5}', '{"run": null}'])
def test_a_choice_that_is_damaged_is_told(tmp_path: Path, line: str) -> None:
    (tmp_path / "selected.jsonl").write_text(f"{line}\n")
    with pytest.raises(SampleError, match="cannot be read"):
        read_selected(SampleStore(tmp_path))


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> SampleStore:
    """Twelve short samples, four longer ones, two with a crop; each kind shares one run."""
    store = store_in(tmp_path_factory.mktemp("many"))
    for name, count, replies in (
        ("short", 12, (SEARCH, ANSWER)),
        ("long", 4, (SEARCH, OTHER, ANSWER)),
        ("crop", 2, (SEARCH, crop(), ANSWER)),
    ):
        first = record_sample(store, f"{name}-0", *replies)
        for number in range(1, count):
            add_record(store, first.model_copy(update={"uid": f"{name}-{number}"}))
    return store


def kinds(store: SampleStore, selecting: SelectionOptions) -> Counter[str]:
    return Counter(one.uid.split("-")[0] for one in select_samples(store, selecting).kept)


def test_no_kind_has_more_than_the_median_kind(many: SampleStore) -> None:
    assert kinds(many, SelectionOptions()) == {"short": 4, "long": 4, "crop": 2}
    dropped = select_samples(many, SelectionOptions()).dropped
    assert len(dropped) == 8
    assert dropped[0].reason == "Of 12 samples of 2 steps, without a crop, 4 are kept for balance."


@pytest.mark.parametrize(
    ("most", "short", "long", "crop"), [(3, 1, 1, 1), (9, 4, 3, 2), (14, 8, 4, 2), (99, 12, 4, 2)]
)
def test_a_number_of_samples_is_shared_evenly(
    many: SampleStore, most: int, short: int, long: int, crop: int
) -> None:
    assert kinds(many, SelectionOptions(most=most)) == {"short": short, "long": long, "crop": crop}


def test_the_choice_goes_by_the_seed_and_not_by_the_order_of_records(
    many: SampleStore, tmp_path: Path
) -> None:
    turned = SampleStore(tmp_path)
    shutil.copytree(many.directory / "runs", tmp_path / "runs")
    turned.samples.rewrite(list(reversed(many.samples.read())))

    def chosen(store: SampleStore, seed: int) -> set[str]:
        return {one.uid for one in select_samples(store, SelectionOptions(seed=seed)).kept}

    assert chosen(many, 1) == chosen(turned, 1)
    assert any(chosen(many, seed) != chosen(many, 1) for seed in range(2, 6))
