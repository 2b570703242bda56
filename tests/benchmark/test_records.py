"""Records: what they hold, appended and read back."""

import pytest
import torch

from gdpnet._core.version import __version__
from gdpnet.benchmark.records import append_record, make_record, read_records
from gdpnet.config import Config
from gdpnet.errors import GDPNetError
from helpers.small import FAST


def test_a_record_says_what_was_run_with_what_and_when():
    stub = {"kind": "trial", "graph": "mine", "variant": "GDPNet", "seed": 3, "config": FAST.to_dict()}
    record = make_record(stub, "cpu", {"micro_f1": 0.5})
    assert (record["kind"], record["graph"], record["variant"], record["seed"]) == (
        "trial",
        "mine",
        "GDPNet",
        3,
    )
    assert record["metrics"] == {"micro_f1": 0.5}
    assert record["version"] == __version__
    assert record["torch"] == torch.__version__
    assert Config().with_values(record["config"]) == FAST
    assert record["commit"]
    assert record["time"].endswith("+00:00")


def test_records_are_appended_and_read_back_in_order(tmp_path):
    path = tmp_path / "results" / "trials.jsonl"
    assert read_records(path) == []
    stubs = [{"kind": "trial", "seed": seed, "config": FAST.to_dict()} for seed in range(3)]
    records = [make_record(stub, "cpu", {"micro_f1": 0.1 * stub["seed"]}) for stub in stubs]
    for record in records[:2]:
        append_record(path, record)
    before = path.read_bytes()
    append_record(path, records[2])
    assert path.read_bytes().startswith(before)
    assert read_records(path) == records
    assert len(path.read_text().splitlines()) == 3


def test_a_line_that_is_not_a_record_is_refused_by_name(tmp_path):
    (tmp_path / "trials.jsonl").write_text('{"kind": "trial"}\n{"kind": "tri')
    with pytest.raises(GDPNetError, match=r"trials\.jsonl holds a line that is not a record"):
        read_records(tmp_path / "trials.jsonl")


def test_a_record_that_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(GDPNetError, match=r"^cannot write .*trials\.jsonl: "):
        append_record(tmp_path / "file" / "trials.jsonl", {})
