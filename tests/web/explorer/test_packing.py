"""Columns in few bytes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdpnet.web.explorer.packing import pack, pack_names, pack_shares
from helpers.pages import unpacked


def test_numbers_are_little_endian_in_base64():
    assert pack([1, 258], "u2") == {"type": "u16", "data": "AQACAQ=="}  # bytes 01 00 02 01


def test_whole_numbers_that_are_too_large_are_clipped():
    assert unpacked(pack([70_000, -1], "u2")).tolist() == [65535, 0]


def test_a_missing_probability_stays_missing():
    assert unpacked(pack_shares([0.0, np.nan, 1.0])).tolist()[::2] == [0.0, 1.0]
    assert np.isnan(unpacked(pack_shares([0.0, np.nan, 1.0]))[1])


@given(st.lists(st.floats(0, 1)))
def test_probabilities_are_right_to_four_decimals(values):
    assert unpacked(pack_shares(values)) == pytest.approx(np.array(values), abs=1e-5)


@given(st.lists(st.none() | st.text(max_size=3)))
def test_texts_come_back_as_they_were(texts):
    packed = pack_names(texts)
    assert unpacked(packed) == texts
    assert len(set(packed["names"])) == len(packed["names"])


def test_more_names_than_two_bytes_can_count_take_four():
    texts = [str(number) for number in range(65_600)]
    assert pack_names(texts)["code"]["type"] == "u32"
    assert unpacked(pack_names(texts))[-1] == "65599"
