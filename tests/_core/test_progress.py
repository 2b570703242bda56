"""How far work is and when it must end: listeners, limits, and parts that divide both."""

import math
import time

import pytest

from gdpnet._core.progress import advance, is_time_up, limit, part, seconds_left, watch, watcher


def test_a_listener_is_told_the_share_that_is_done_and_nobody_else_is():
    told: list[float] = []
    advance(1, 2)  # nobody listens
    with watch(told.append):
        advance(1, 4)
        with watch(None):
            advance(2, 4)
        watcher()(0.75)
        advance(9, 4)
        advance(1, 0)
    advance(1, 2)
    assert told == [0.25, 0.75, 1.0]


def test_parts_advance_the_whole_by_their_share():
    told: list[float] = []
    with watch(told.append):
        for number in range(2):
            with part(number, 2):
                advance(1, 2)
                with part(1, 2):
                    advance(1, 2)
    assert told == [0.25, 0.375, 0.5, 0.5, 0.75, 0.875, 1.0, 1.0]


def test_without_a_limit_time_is_never_up():
    assert seconds_left() == math.inf
    assert not is_time_up()
    with part(0, 3), part(1, 2):
        assert seconds_left() == math.inf


def test_the_earlier_of_two_limits_holds_and_the_outer_one_holds_again_after():
    with limit(100.0):
        with limit(1000.0):
            assert 99 < seconds_left() <= 100
        with limit(10.0):
            assert 9 < seconds_left() <= 10
        assert 99 < seconds_left() <= 100
    assert seconds_left() == math.inf


def test_parts_share_the_time_that_is_left():
    with limit(12.0):
        with part(0, 3):
            assert seconds_left() == pytest.approx(4.0, abs=0.5)
        with part(1, 3):  # the first took nothing
            assert seconds_left() == pytest.approx(6.0, abs=0.5)
        with part(2, 3):
            assert seconds_left() == pytest.approx(12.0, abs=0.5)


def test_a_limit_remembers_whether_anything_within_ended_because_of_it():
    with limit(100.0) as outer, limit(0.01) as inner:
        assert not is_time_up()
        assert not inner.was_reached
        time.sleep(0.02)
        with part(0, 1):
            assert is_time_up()
    assert (inner.was_reached, outer.was_reached) == (True, True)
    with limit(100.0) as quiet, limit(-1.0):
        pass  # nobody asked
    assert not quiet.was_reached
