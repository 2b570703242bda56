"""Sweeps: which trials are missing, which record of a trial counts, and means over seeds by hand."""

import math
from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from gdpnet.benchmark.ablations import VARIANTS, current_name
from gdpnet.benchmark.records import append_record, read_records
from gdpnet.benchmark.sweep import Sweep, record_of, run_all
from gdpnet.errors import GraphError

SWEEP = Sweep("toy", ("graph", "method", "rate"), share_settings=("graph", "method"))


def record(score: float | None, seed: int = 0, rate: float = 0.5, **more) -> dict:
    metrics = {"error": "it broke"} if score is None else {"score": score}
    about = {
        "kind": "toy",
        "graph": "mine",
        "method": "gcn",
        "rate": rate,
        "seed": seed,
        "config": {"width": 1},
    }
    return about | {"metrics": metrics, "commit": "abc"} | more


@dataclass(frozen=True)
class Toy:
    seed: int
    width: int = 1

    @property
    def stub(self) -> dict:
        about = {"kind": "toy", "graph": "mine", "method": "gcn", "rate": 0.5}
        return about | {"seed": self.seed, "config": {"width": self.width}}

    def run(self) -> list[dict]:
        return [record_of(self.stub, "cpu", self.measure)]

    def measure(self) -> dict:
        if self.seed == 13:
            raise GraphError("no\n  luck")
        return {"score": self.seed / 10, "missing": math.nan}


# --- planning and running ---


def test_what_a_file_holds_is_not_run_again_and_what_failed_is(tmp_path):
    path, seen = tmp_path / "records.jsonl", []
    trials = [Toy(0), Toy(13), Toy(0, width=2)]
    append_record(path, {"kind": "another"})
    run_all(SWEEP.missing(trials, path), path, 1, seen.append)
    assert [one["metrics"] for part in seen for one in part] == [
        {"score": 0.0, "missing": None},
        {"error": "no luck"},
        {"score": 0.0, "missing": None},
    ]
    assert {one["device"] for part in seen for one in part} == {"cpu"}
    assert SWEEP.missing(trials, path) == [Toy(13)]
    assert [one["config"] for one in SWEEP.ended(path).values()] == [{"width": 1}, {"width": 2}]


def test_a_mistake_of_the_program_is_not_recorded():
    def mistaken() -> dict:
        raise TypeError("a mistake")

    with pytest.raises(TypeError, match="a mistake"):
        record_of(Toy(0).stub, "cpu", mistaken)


# --- which record counts ---


def test_the_newest_record_of_a_trial_counts_and_one_that_ended_before_one_that_failed():
    records = [record(0.1), record(0.2), record(None), record(None, seed=1)]
    assert [one["metrics"] for one in SWEEP.newest(records)] == [{"score": 0.2}, {"error": "it broke"}]
    assert SWEEP.latest(records) == {("mine", "gcn"): records[1]}


def test_records_that_share_settings_have_those_of_the_newest():
    other = {"width": 2}
    records = [record(0.1, rate=0.0), record(0.2, seed=1), record(0.3, config=other)]
    assert SWEEP.newest(records) == [records[2]]


# --- summaries ---


def test_a_summary_has_mean_and_standard_deviation_over_seeds():
    records = [record(0.5), record(0.7, seed=1), record(None, seed=2), record(None, rate=1.0)]
    first, second = SWEEP.summarise(records, ("score", "other"), SimpleNamespace)
    assert (first.graph, first.method, first.rate) == ("mine", "gcn", 0.5)
    assert (first.seeds, first.failed) == (2, 1)
    assert first.mean["score"] == pytest.approx(0.6)
    assert first.deviation["score"] == pytest.approx(
        0.2 / 2**0.5
    )  # of two numbers: their distance over root 2
    assert math.isnan(first.mean["other"])
    assert (second.seeds, second.failed) == (0, 1)
    assert math.isnan(second.mean["score"])


# --- records of earlier versions ---


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("gdpnet:no-reader", "gdpnet:no-hopwise"),
        ("gdpnet:no-convolutions>gcn", "gdpnet:no-gcn>gcn"),
        ("gdpnet:trusting", "gdpnet:no-label-check"),
        ("gdpnet>gcn", "gdpnet>gcn"),
        ("gcn", "gcn"),
    ],
)
def test_methods_of_earlier_records_have_the_names_of_this_version(old, new, tmp_path):
    assert current_name(old) == new
    assert new.partition(">")[0] in (*VARIANTS, "gcn")
    append_record(tmp_path / "records.jsonl", record(0.5, method=old))
    assert read_records(tmp_path / "records.jsonl")[0]["method"] == new


def test_settings_of_earlier_records_have_the_names_of_this_version(tmp_path):
    old = {"policy": {"state": "circles"}, "reader": {"use": False}}
    append_record(tmp_path / "records.jsonl", record(0.5, config=old, cleaner=old))
    [found] = read_records(tmp_path / "records.jsonl")
    for settings in (found["config"], found["cleaner"]):
        assert settings["policy"]["state"] == "neighbourhood"
        assert settings["hopwise"]["use"] is settings["gcn"]["use"] is False
