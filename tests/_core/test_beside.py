"""Jobs beside the caller: where they run, with how many threads, and how they end."""

import threading
import time

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info, threadpool_limits

from gdpnet._core.beside import Beside
from gdpnet._core.profiling import Profile, phase
from gdpnet._core.progress import is_time_up, limit, stop_if_abandoned
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


def test_jobs_that_nobody_asked_for_may_end_when_the_block_ends(caplog):
    done = []

    def long() -> None:
        while True:
            stop_if_abandoned()
            time.sleep(0.01)

    with Beside() as beside, caplog.at_level("DEBUG"):
        beside.give_torch_one_thread()
        beside.start("long", long)
        asked = beside.start("asked", lambda: (stop_if_abandoned(), done.append(1)))
        asked()
    assert done == [1]
    assert not caplog.records


def test_a_job_computes_with_one_thread_of_each_library():
    with threadpool_limits(4, user_api="openmp"), Beside() as beside:
        beside.give_torch_one_thread()
        assert {one["num_threads"] for one in beside.start("asking", threadpool_info)()} == {1}


def blas_threads() -> set[int]:
    return {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"}


@pytest.mark.skipif(blas_threads() == {1}, reason="BLAS has one thread on this machine")
def test_blas_gets_its_threads_back_when_the_last_of_overlapping_fits_has_ended():
    before, begun, ended = blas_threads(), threading.Event(), threading.Event()

    def other_fit() -> None:
        with torch_threads(4), Beside() as beside:
            beside.give_torch_one_thread()
            begun.set()
            assert ended.wait(60)

    thread = threading.Thread(target=other_fit)
    with Beside() as beside:
        beside.give_torch_one_thread()
        thread.start()
        assert begun.wait(60)
    during = blas_threads()
    ended.set()
    thread.join()
    assert (during, blas_threads()) == ({1}, before)


def test_work_that_must_end_soon_is_not_abandoned():
    with limit(-1.0):
        assert is_time_up()
        stop_if_abandoned()


def test_the_error_of_a_job_that_nobody_asked_for_is_logged(caplog):
    def fail() -> None:
        raise ValueError("no room")

    with caplog.at_level("DEBUG"), Beside() as beside:
        beside.give_torch_one_thread()
        beside.start("failing", fail)
    assert "no room" in caplog.text


def test_a_job_runs_once_however_often_it_is_asked_for():
    ran = []
    for enabled in (False, True):
        with Beside(enabled) as beside:
            beside.give_torch_one_thread()
            found = beside.start("once", lambda enabled=enabled: ran.append(enabled))
            found()
            found()
    assert ran == [False, True]


def test_an_object_that_is_not_entered_changes_no_number_of_threads():
    kept = [Beside(), Beside(enabled=False)]
    with torch_threads(1):
        assert loop_threads() == 1
    del kept
    assert loop_threads() == 4


def test_openmp_and_blas_compute_with_one_thread_too_and_get_theirs_back():
    np.ones((2, 2)) @ np.ones((2, 2))

    def most() -> int:
        return max(one["num_threads"] for one in threadpool_info())

    with threadpool_limits(2, user_api="openmp"), Beside(enabled=False) as beside:
        before = most()
        assert before >= 2
        with beside:
            beside.give_torch_one_thread()
            assert most() == 1
        assert most() == before


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


def test_jobs_at_the_same_time_have_lines_of_their_own_in_a_profile():
    meeting = threading.Barrier(2, timeout=60)
    with Profile().measure() as profile, Beside() as beside:
        beside.give_torch_one_thread()
        for found in [beside.start(name, meeting.wait) for name in ("one", "other")]:
            found()
        beside.start("later", lambda: None)()
    lanes = {event.path[0]: event.lane for event in profile.events}
    assert {lanes["beside: one"], lanes["beside: other"]} == {1, 2}
    assert lanes["beside: later"] == 1


def test_shares_of_a_profile_are_of_the_phases_of_the_caller():
    with Profile().measure() as profile, Beside() as beside:
        beside.give_torch_one_thread()
        found = beside.start("waiting", lambda: time.sleep(0.05))
        with phase("caller"):
            found()
    assert {row.phase: row.share for row in profile.rows()}["caller"] == 1.0
