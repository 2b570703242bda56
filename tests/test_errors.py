"""Sentences of bounded length, and names that are nearly right."""

import pickle
import time

import pytest

from gdpnet.errors import GraphError, nearest, refusing, shortened


def test_a_short_sentence_stays_as_it_is():
    sentence = "labels must be class numbers, found 'x'"
    assert shortened(sentence) == sentence
    assert str(GraphError(sentence)) == sentence


def test_a_long_value_loses_its_middle_and_the_sentence_keeps_both_ends():
    error = GraphError(f"a.csv must have a column, found '{'x' * 9000}' in row 3; --column chooses another")
    assert len(str(error)) <= 300
    assert str(error).startswith("a.csv must have a column, found 'xxx")
    assert str(error).endswith("xxx' in row 3; --column chooses another")


def test_an_error_of_an_error_is_short_too():
    inner = GraphError("y" * 5000)
    assert len(str(GraphError(f"{'z' * 4000}: {inner}"))) == 300


def test_what_a_terminal_would_act_on_is_written_out():
    assert str(GraphError("found 'a\x1b[2J\nb\ud800'")) == "found 'a\\x1b[2J b\\ud800'"


def test_an_error_survives_the_way_to_another_process():
    assert str(pickle.loads(pickle.dumps(GraphError("x" * 900)))) == str(GraphError("x" * 900))


def test_what_a_library_raises_becomes_one_sentence_and_lacking_memory_does_not():
    with (
        pytest.raises(GraphError, match="the graph cannot be read: index 3 is out of bounds"),
        refusing("the graph"),
    ):
        raise IndexError("index 3 is out of bounds")
    with pytest.raises(MemoryError), refusing("the graph"):
        raise MemoryError


def test_the_nearest_of_many_long_names_is_found_quickly():
    names = [f"{number:06d}" + "x" * 5000 for number in range(3000)]
    begin = time.perf_counter()
    assert nearest("y" * 8000, [*names, "weight"]).startswith("; known are ")
    assert nearest("wieght", [*names, "weight"]) == "; did you mean 'weight'?"
    assert time.perf_counter() - begin < 5


def test_a_hint_without_known_names_says_so_and_takes_words_of_any_type():
    assert nearest("id", []) == ", found none"
    assert nearest(5, ["55"]).startswith("; ")
