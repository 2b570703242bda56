"""Jobs beside the caller: where they run, with how many threads, and how they end."""

import threading
import time

import pytest
import torch

from gdpnet._core.beside import Beside
from gdpnet._core.profiling import Profile, phase
from gdpnet._core.progress import is_time_up
from gdpnet._core.threads import loop_threads, torch_threads


@pytest.fixture(autouse=True)
def four_threads():
    with torch_threads(4):
        yield


def test_a_job_runs_while_the_caller_goes_on():
    told = threading.Event()
    with Beside() as beside:
        beside.give_torch_one_thread()
        found = beside.start("waiting", lambda: told.wait(60))
        told.set()  # a job that ran in the caller would have waited for this in vain
        assert found() is True


@pytest.mark.parametrize("threads", [1, 4])
def test_a_job_runs_in_the_caller_when_its_result_is_asked_for_if_there_is_no_other_thread(threads):
    with torch_threads(threads), Beside(enabled=threads == 1) as beside:
        beside.give_torch_one_thread()
        ran_in: list[threading.Thread] = []
        found = beside.start("alone", lambda: ran_in.append(threading.current_thread()))
        assert not ran_in
        found()
        assert ran_in == [threading.main_thread()]


def test_the_error_of_a_job_is_raised_where_its_result_is_asked_for():
    def fail() -> None:
        raise ValueError("no room")

    with Beside() as beside:
        beside.give_torch_one_thread()
        found = beside.start("failing", fail)
        with pytest.raises(ValueError, match="no room"):
            found()


def test_leaving_waits_for_jobs_that_nobody_asked_for():
    done = []
    with Beside() as beside:
        beside.give_torch_one_thread()
        beside.start("slow", lambda: (time.sleep(0.1), done.append(1)))
    assert done == [1]


def test_jobs_end_early_after_an_error_of_the_caller():
    ended = []

    def long() -> None:
        while not is_time_up():
            time.sleep(0.01)
        ended.append(1)

    def begin_and_fail() -> None:
        with Beside() as beside:
            beside.give_torch_one_thread()
            beside.start("long", long)
            raise KeyError("caller")

    with pytest.raises(KeyError, match="caller"):
        begin_and_fail()
    assert ended == [1]


def test_torch_gets_its_threads_back_while_loops_keep_theirs():
    with Beside() as beside:
        beside.give_torch_one_thread()
        assert (torch.get_num_threads(), loop_threads()) == (1, 4)
        found = beside.start("asking", lambda: (torch.get_num_threads(), loop_threads()))
        assert found() == (1, 1)
    assert (torch.get_num_threads(), loop_threads()) == (4, 4)


def test_while_torch_has_several_threads_jobs_run_in_the_caller_with_all_of_them():
    with Beside() as beside:
        found = beside.start("asking", lambda: (threading.current_thread(), torch.get_num_threads()))
        assert found() == (threading.main_thread(), 4)


def test_a_profile_has_the_time_of_jobs_beside_the_phases_of_the_caller():
    with Profile().measure() as profile, phase("fit"), Beside() as beside:
        beside.give_torch_one_thread()
        found = beside.start("waiting", lambda: time.sleep(0.05))
        with phase("caller"):
            found()
    seconds = {row.phase: row.seconds for row in profile.rows()}
    assert set(seconds) == {"fit", "fit / caller", "beside: waiting"}
    assert 0.05 <= seconds["beside: waiting"] <= seconds["fit"]
    assert '"tid": 1' in profile.trace()
