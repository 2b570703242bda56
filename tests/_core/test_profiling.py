"""Profiles: phases that nest, their times, and a trace that browsers read."""

import json
import re
from pathlib import Path

from gdpnet._core.profiling import Event, Profile, phase


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


# --- the table and the page ---


def test_shares_are_of_the_fit_or_else_of_the_outermost_phases() -> None:
    profile = Profile()
    profile.events += [
        Event(("fit", "epochs"), 0.0, 6.0),
        Event(("fit",), 0.0, 8.0),
        Event(("check",), 8.0, 2.0),
    ]
    assert [row.share for row in profile.rows()] == [1.0, 0.75, 0.25]
    alone = Profile([*profile.events[-1:], Event(("data",), 10.0, 6.0)])
    assert [row.share for row in alone.rows()] == [0.25, 0.75]


def test_the_table_is_indented_by_nesting() -> None:
    profile = Profile([Event(("epochs", "playing"), 0.0, 1.0), Event(("epochs",), 0.0, 4.0)])
    head, epochs, playing = str(profile).splitlines()
    assert head.split() == ["phase", "calls", "seconds", "own", "seconds", "share", "of", "fit"]
    assert epochs.split() == ["epochs", "1", "4.000", "3.000", "100.0%"]
    assert playing.startswith("  playing")
    assert len(head) == len(epochs) == len(playing)


def test_the_page_holds_its_data_whatever_phases_are_called(tmp_path: Path) -> None:
    name = "</script><script>alert(1)</script> & \"quotes\" <b>'é'"
    profile = Profile([Event((name,), 0.0, 1.5), Event((name, "within"), 0.25, 0.5)])
    paths = profile.save(tmp_path, title="<i>title")
    assert [path.name for path in paths] == ["profile.html", "profile.json"]
    page = paths[0].read_text(encoding="utf-8")
    assert page.count("<script") == page.count("</script>") == 2
    assert "<i>title" not in page
    assert "<b>" not in page
    assert not re.search(r"(src|href)=|https?://(?!www\.w3\.org/2000/svg)", page)  # nothing from elsewhere
    data = json.loads(re.search(r"<script type=\"application/json\" id=data>(.*?)</script>", page)[1])
    assert data["names"] == sorted([name, "within"])
    shown = [[level, start, took, data["names"][number]] for level, start, took, number in data["events"]]
    assert shown == [[0, 0.0, 1.5, name], [1, 0.25, 0.5, "within"]]
    assert data["total"] == 1.5
    assert json.loads(paths[1].read_text(encoding="utf-8"))["traceEvents"][0]["name"] == name


def test_a_profile_without_phases_is_still_a_page(tmp_path: Path) -> None:
    assert "<table>" in Profile().save(tmp_path)[0].read_text(encoding="utf-8")
