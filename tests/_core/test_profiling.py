"""Profiles: phases that nest, their times, and a trace that browsers read."""

import json

from gdpnet._core.profiling import Profile, phase


def test_phases_nest_and_own_time_leaves_out_what_is_within() -> None:
    profile = Profile()
    with profile.measure():
        for _ in range(2):
            with phase("epochs"), phase("playing"):
                pass
        with phase("heads"):
            pass
    rows = profile.rows()
    assert [(row.phase, row.calls) for row in rows] == [("epochs", 2), ("epochs / playing", 2), ("heads", 1)]
    epochs, playing, _ = rows
    assert epochs.seconds >= playing.seconds > 0
    assert abs(epochs.own_seconds - (epochs.seconds - playing.seconds)) < 1e-12


def test_nothing_is_recorded_while_nobody_measures() -> None:
    profile = Profile()
    with phase("before"):
        pass
    with profile.measure():
        pass
    with phase("after"):
        pass
    assert profile.events == []


def test_a_phase_that_fails_is_recorded_and_closed() -> None:
    profile = Profile()
    try:
        with profile.measure(), phase("fails"):
            raise ValueError("stop")
    except ValueError:
        pass
    with profile.measure(), phase("next"):
        pass
    assert [event.path for event in profile.events] == [("fails",), ("next",)]


def test_the_trace_has_one_complete_event_per_phase() -> None:
    profile = Profile()
    with profile.measure(), phase("outer"), phase("inner"):
        pass
    events = json.loads(profile.trace())["traceEvents"]
    assert [event["name"] for event in events] == ["outer", "inner"]
    assert all(event["ph"] == "X" and event["dur"] >= 0 for event in events)
    assert events[0]["ts"] <= events[1]["ts"]
