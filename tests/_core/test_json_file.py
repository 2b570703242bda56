"""JSON of others: bounded, and of the types that are expected."""

import json
import time
import tracemalloc

import pytest

from gdpnet._core.json_file import entries, entry, expect, parse_json, read_json
from gdpnet.errors import GDPNetError, GraphError


def test_a_file_is_read(tmp_path):
    (tmp_path / "a.json").write_text('{"a": [1, 2.5, null], "b": "[[["}')
    assert read_json(tmp_path / "a.json", dict, GraphError) == {"a": [1, 2.5, None], "b": "[[["}


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "cannot be read as JSON"),
        (b"\xff\xfe", "cannot be read as JSON"),
        (b"[" * 200_000, "must be JSON of at most 100 levels"),
        (b'{"a":' * 5000, "must be JSON of at most 100 levels"),
        (b"[" * 99 + b"]" * 99, "must be an object, found a list"),
        (b"9" * 5000, "cannot be read as JSON"),
        (b"{" + b" " * 200 + b"}", "must be JSON of at most 200 bytes"),
    ],
)
def test_what_is_not_readable_is_one_sentence_that_names_the_file(content, sentence, tmp_path):
    (tmp_path / "a.json").write_bytes(content)
    most = 200 if b" " in content else 1 << 20
    with pytest.raises(GraphError, match=sentence) as caught:
        read_json(tmp_path / "a.json", dict, GraphError, most)
    assert "a.json" in str(caught.value)


def test_many_brackets_side_by_side_are_not_deep():
    text = json.dumps([[1], {"[": ["]"]}] * 1000)
    assert len(parse_json(text, "it", list)) == 2000


def test_a_missing_file_is_said(tmp_path):
    with pytest.raises(GraphError, match=r"no.json cannot be read as JSON: No such file"):
        read_json(tmp_path / "no.json", dict, GraphError)


def test_entries_have_the_expected_types():
    record = {"count": 3, "share": 1, "names": ["a", "b"], "flag": True}
    assert entry(record, "count", int, "it") == 3
    assert entry(record, "share", float, "it") == 1  # a whole number is a number
    assert entries(record, "names", str, "it") == ["a", "b"]
    assert entry(record, "more", str, "it", default="") == ""
    for key, kind in (("flag", int), ("flag", float), ("count", str), ("names", dict), ("none", int)):
        with pytest.raises(GraphError, match=f"'{key}'"):
            entry(record, key, kind, "it", GraphError)
    with pytest.raises(GraphError, match="value 2 of 'names' of it must be a whole number, found a text"):
        entries({"names": [1, "b"]}, "names", int, "it", GraphError)
    with pytest.raises(GraphError, match="it must be a text or null, found a list"):
        expect([], (str, type(None)), "it", GraphError)


def test_a_string_without_an_end_takes_no_longer_than_its_length():
    start = time.monotonic()
    with pytest.raises(GDPNetError, match="Unterminated string"):
        parse_json("[" + "[]," * 101 + '"' + '\\"' * 200_000, "x", list)
    assert time.monotonic() - start < 10


def test_a_long_string_takes_little_memory():
    text = "[" + "[]," * 101 + '"' + "ab" * 1_000_000 + '"]'
    tracemalloc.start()
    try:
        assert len(parse_json(text, "x", list)) == 102
        assert tracemalloc.get_traced_memory()[1] < 20 * len(text)
    finally:
        tracemalloc.stop()


def test_text_that_is_no_unicode_is_refused_and_both_halves_of_a_character_are_read():
    with pytest.raises(GDPNetError, match=r"x cannot be read as JSON: .*surrogates not allowed"):
        parse_json('{"a": "\\ud800"}', "x")
    assert parse_json('{"a": "\\ud83d\\ude00"}', "x") == {"a": "\U0001f600"}


@pytest.mark.parametrize("digits", [310, 5000])
def test_a_whole_number_that_no_float_holds_is_refused(digits):
    with pytest.raises(GDPNetError, match=f"x cannot be read as JSON: a whole number has {digits:,} digits"):
        parse_json('{"a": ' + "9" * digits + "}", "x")
    assert parse_json('{"a": 1' + "0" * 300 + "}", "x") == {"a": 10**300}
