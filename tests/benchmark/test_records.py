"""Records: what they hold, appended and read back."""

import errno
import os
import subprocess
import sys

import pytest
import torch

from gdpnet._core.version import __version__
from gdpnet.benchmark.records import append_record, make_record, read_records, torn_note
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


@pytest.mark.parametrize("bad", ['{"kind": "tri', "[1]", "text", '{"kind": "tri{"kind": "trial"}'])
def test_a_bad_line_in_the_middle_is_refused_with_its_number(bad, tmp_path):
    path = tmp_path / "trials.jsonl"
    path.write_text(f'{{"kind": "trial"}}\n\n{bad}\n{{"kind": "trial"}}\n')
    with pytest.raises(GDPNetError, match=r"^line 3 of .*trials\.jsonl is not a record: "):
        read_records(path)


@pytest.mark.parametrize("torn", ['{"kind": "tri', "{", '{"a": {"b": 1}', "\0\0\0", '{"kind": "tri\n'])
def test_a_torn_last_line_is_left_out_and_replaced_by_the_next_record(torn, tmp_path):
    path = tmp_path / "trials.jsonl"
    path.write_text('{"seed": 0}\n' + torn)
    assert read_records(path) == [{"seed": 0}]
    assert "was cut short and is left out" in torn_note(path)
    append_record(path, {"seed": 1})
    assert torn_note(path) is None
    assert path.read_text() == '{"seed": 0}\n{"seed": 1}\n'


def test_a_last_line_without_a_newline_is_kept(tmp_path):
    path = tmp_path / "trials.jsonl"
    path.write_text('{"seed": 0}')
    append_record(path, {"seed": 1})
    assert path.read_text() == '{"seed": 0}\n{"seed": 1}\n'


def test_a_text_that_is_no_record_is_neither_taken_for_a_torn_one_nor_cut(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("my notes")
    with pytest.raises(GDPNetError, match=r"line 1 of .*notes\.txt is not a record"):
        read_records(path)
    append_record(path, {"seed": 1})
    assert path.read_text() == 'my notes\n{"seed": 1}\n'


def test_a_record_that_a_full_disk_cuts_is_taken_back(tmp_path, monkeypatch):
    path = tmp_path / "trials.jsonl"
    append_record(path, {"seed": 0})
    before, write = path.read_bytes(), os.write

    def half(descriptor: int, content: bytes) -> int:
        if len(content) < 6:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(descriptor, content[:5])

    monkeypatch.setattr(os, "write", half)
    with pytest.raises(GDPNetError, match=r"trials\.jsonl: No space left on device"):
        append_record(path, {"seed": 1, "why": "to be cut"})
    monkeypatch.undo()
    assert path.read_bytes() == before


def test_records_of_several_processes_do_not_mix(tmp_path):
    code = (
        "import sys; from pathlib import Path; from gdpnet.benchmark.records import append_record\n"
        "for number in range(40): append_record(Path(sys.argv[1]), {'who': sys.argv[2], 'long': 'x' * 70_000})"
    )
    path = tmp_path / "trials.jsonl"
    both = [subprocess.Popen([sys.executable, "-c", code, path, name]) for name in "ab"]
    assert [process.wait() for process in both] == [0, 0]
    assert sorted(record["who"] for record in read_records(path)) == ["a"] * 40 + ["b"] * 40


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"seed": "0"}, "'seed' in line 1 of .* must be a whole number, found str"),
        ({"metrics": [1]}, "'metrics' in line 1 of .* must be an object, found list"),
        ({"metrics": {"micro_f1": "good"}}, "'micro_f1' in line 1 of .* must be a number or null, found str"),
        ({"metrics": {"error": 5}}, "'error' in line 1 of .* must be text, found int"),
        ({"graph": {}}, "'graph' in line 1 of .* must be text, found dict"),
        ({"rate": None}, "'rate' in line 1 of .* must be a number, found NoneType"),
        ({"config": 3}, "'config' in line 1 of .* must be an object, found int"),
        (
            {"config": {"policy": {}, "ppo": [1]}},
            "'config' in line 1 of .*: section 'ppo' must hold settings, found list",
        ),
    ],
)
def test_a_record_of_wrong_types_is_one_sentence(changes, sentence, tmp_path):
    record = {"kind": "robustness", "graph": "g", "method": "gcn", "noise": "n", "rate": 0.5, "seed": 0}
    append_record(tmp_path / "trials.jsonl", record | {"metrics": {}, "config": {}} | changes)
    with pytest.raises(GDPNetError, match=sentence):
        read_records(tmp_path / "trials.jsonl")


def test_a_record_that_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(GDPNetError, match=r"^cannot write .*trials\.jsonl: "):
        append_record(tmp_path / "file" / "trials.jsonl", {})


def test_a_line_of_text_that_is_no_unicode_is_named_and_stays(tmp_path):
    path = tmp_path / "trials.jsonl"
    path.write_text('{"kind": "robustness", "graph": "\\ud800"}\n')
    before = path.read_bytes()
    with pytest.raises(GDPNetError, match=r"line 1 of|trials\.jsonl"):
        read_records(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("digits", [400, 5000])
def test_a_last_line_with_a_huge_number_is_refused_and_not_cut_as_if_it_were_torn(digits, tmp_path):
    path = tmp_path / "trials.jsonl"
    path.write_text('{"seed": 0}\n{"seed": ' + "9" * digits + "}\n")
    before = path.read_bytes()
    with pytest.raises(GDPNetError, match=r"line 2 of .* is not a record"):
        read_records(path)
    append_record(path, {"seed": 1})
    assert path.read_bytes() == before + b'{"seed": 1}\n'
