"""Rounds of kills: their names, and that they find what a broken writer does."""

import pytest
from campaigns.compare import tree_of
from campaigns.faults import why_unavailable
from campaigns.jobs import JOBS, NOTES, older, prepare
from campaigns.rounds import PROCESS, Round, Stage, Usual

pytestmark = pytest.mark.skipif(why_unavailable() is not None, reason=str(why_unavailable()))

JOB = JOBS["predict"]


def test_a_round_is_repeated_by_its_name():
    this = Round("train-links", "process-kill", 17)
    assert Round.named(str(this)) == this


def test_a_finished_run_is_replaced_or_gone_on_with_in_every_way_but_by_two_at_once(tmp_path):
    stage = Stage(tmp_path, write_carefully)
    stage.usual = {name: Usual(({}, {}), 3, 0.1) for name in ("train", "train-more")}
    rounds = [one for group in stage.groups() for one in group if not one.kind.startswith(PROCESS)]
    kinds = {name: {one.kind for one in rounds if one.job == name} for name in stage.usual}
    assert kinds["train"] - kinds["train-more"] == {"two", "occupied", "link", "device"}
    (stage.base / "run").mkdir(parents=True)
    (stage.base / "run" / "run.json").write_text("{}")
    prepare(JOBS["train-more"], stage.base, tmp_path / "work")
    assert (tmp_path / "work" / "run" / "run.json").read_text() == "{}"
    assert JOBS["train-force"].words_again(stage.base, tmp_path)[-1] == "--resume"
    assert "--force" not in JOBS["train-force"].words_again(stage.base, tmp_path)


def staged(tmp_path, command) -> Stage:
    """Return a stage whose command writes a file in some way, and what it leaves if nothing disturbs it."""
    stage = Stage(tmp_path, command)
    work = tmp_path / "usual"
    older(JOB, stage.base).parent.mkdir(parents=True)
    older(JOB, stage.base).write_text("old\n")
    prepare(JOB, stage.base, work)
    command(JOB.words(stage.base, work))
    stage.usual[JOB.name] = Usual((tree_of(work), tree_of(work)), 3, 0.1)
    return stage


def out_of(words):
    from pathlib import Path

    return Path(words[words.index("--out") + 1])


def write_carefully(words) -> int:
    out = out_of(words)
    beside = out.with_name("temporary")
    beside.write_text("new\n")
    beside.replace(out)
    return 0


def lose_notes(words) -> int:
    out_of(words).write_text("new\n")
    out_of(words).with_name(NOTES).unlink()
    return 0


def refuse_at_length(words) -> int:
    import sys

    print("gdpnet: " + "x" * 301, file=sys.stderr)
    return 2


def test_a_careful_writer_has_no_problem(tmp_path):
    stage = staged(tmp_path, write_carefully)
    assert stage.play(Round(JOB.name, "kill-moment", 900)) == []


def test_a_lost_file_of_the_user_is_found(tmp_path):
    stage = staged(tmp_path, write_carefully)
    stage.run_command = lose_notes
    problems = stage.play(Round(JOB.name, "kill-moment", 1000))
    assert any("the user's notes are gone" in one for one in problems)


def test_a_replaced_link_and_a_replaced_device_are_found(tmp_path):
    stage = staged(tmp_path, write_carefully)
    assert stage.play(Round(JOB.name, "link")) == ["the link was replaced"]
    assert stage.play(Round(JOB.name, "device")) == ["the device was replaced by a file"]


def test_a_sentence_that_is_too_long_is_found(tmp_path):
    stage = staged(tmp_path, write_carefully)
    stage.run_command = refuse_at_length
    assert any("a sentence of 301 characters" in one for one in stage.play(Round(JOB.name, "link")))
