"""Folders compared without times and commits."""

import json

from campaigns.compare import differences, tree_of


def write(folder, name, content):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))


def test_times_and_the_folder_itself_do_not_count(tmp_path):
    for name, seconds in (("one", 1.5), ("two", 9.0)):
        folder = tmp_path / name
        write(folder, "metrics.json", {"f1": 0.5, "seconds": seconds, "out": f"{folder}/x"})
    assert tree_of(tmp_path / "one") == tree_of(tmp_path / "two")


def test_a_value_a_missing_file_and_a_leftover_are_told(tmp_path):
    write(tmp_path / "one", "metrics.json", {"f1": 0.5})
    write(tmp_path / "one", "model", "x")
    write(tmp_path / "two", "metrics.json", {"f1": 0.25})
    write(tmp_path / "two", ".model.7.tmp", "x")
    found = differences(tree_of(tmp_path / "two"), tree_of(tmp_path / "one"))
    assert found == [".model.7.tmp was left behind", "metrics.json differs", "model is missing"]


def test_records_count_in_any_order_and_without_a_torn_line(tmp_path):
    write(tmp_path / "one", "records.jsonl", '{"a": 1}\n{"a": 2}\n')
    write(tmp_path / "two", "records.jsonl", '{"a": 2}\n{"a": 1}\n{"a": ')
    write(tmp_path / "three", "records.jsonl", '{"a": 1}\n')
    assert tree_of(tmp_path / "one") == tree_of(tmp_path / "two") != tree_of(tmp_path / "three")


def test_a_link_is_no_file(tmp_path):
    write(tmp_path, "real", "x")
    (tmp_path / "link").symlink_to("real")
    assert tree_of(tmp_path)["link"] == "link real"
