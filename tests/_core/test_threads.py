"""Jobs in threads: none is lost, errors are raised, order is kept."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from gdpnet._core.threads import Background, Team, in_order, loop_threads, torch_threads, use_loop_threads


@pytest.mark.parametrize("threads", [0, 2])
def test_every_job_is_done_on_leaving(threads):
    done = []
    with Background(threads) as background:
        for number in range(20):
            background.do(lambda number=number: done.append(number))
    assert sorted(done) == list(range(20))


def hand_over(background: Background, *jobs) -> None:
    with background:
        for job in jobs:
            background.do(job)


def fail() -> None:
    raise ValueError("no room")


@pytest.mark.parametrize("threads", [0, 2])
def test_an_error_of_a_job_is_raised_and_running_jobs_are_finished(threads):
    finished = threading.Event()
    with pytest.raises(ValueError, match="no room"):
        hand_over(Background(threads), finished.set, fail, *[lambda: None] * 10)
    assert finished.is_set()


def test_compiled_loops_may_use_other_threads_than_torch():
    with ThreadPoolExecutor(1, initializer=use_loop_threads, initargs=(3,)) as pool:
        assert pool.submit(loop_threads).result() == 3
    assert loop_threads() == torch.get_num_threads()


def test_threads_of_torch_are_set_for_the_calling_thread_alone():
    """Torch itself gives a number to all threads that compute for the first time later."""
    with ThreadPoolExecutor(1) as within, ThreadPoolExecutor(1) as after:
        usual = ThreadPoolExecutor(1).submit(torch.get_num_threads).result()
        with torch_threads(usual + 3):
            assert torch.get_num_threads() == usual + 3
            assert within.submit(torch.get_num_threads).result() == usual
            with torch_threads(usual + 1):
                assert torch.get_num_threads() == usual + 1
            assert torch.get_num_threads() == usual + 3
        assert within.submit(torch.get_num_threads).result() == usual
        assert after.submit(torch.get_num_threads).result() == usual


def test_results_come_in_order():
    assert list(in_order(lambda number: number * number, range(50))) == [n * n for n in range(50)]
    assert list(in_order(str, [])) == []


@pytest.mark.parametrize("last", [3, 4, 1000])
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_a_team_runs_a_job_on_every_part_of_a_range_once(threads, last):
    parts = []
    with Team(threads) as team:
        team.run(lambda begin, end: parts.append((begin, end)), 3, last)
    assert sorted(number for part in parts for number in range(*part)) == list(range(3, last))


def test_threads_of_a_team_work_beside_the_caller_and_end_on_leaving():
    meeting, names = threading.Barrier(2, timeout=30), set()

    def meet(begin: int, end: int) -> None:
        if begin == 0 or end == 100:  # the first and the last part wait for each other
            meeting.wait()
        names.add(threading.current_thread().name)

    before = threading.active_count()
    with Team(2) as team:
        team.run(meet, 0, 100)
    assert len(names) == 2
    assert threading.active_count() == before


@pytest.mark.parametrize("threads", [1, 2])
def test_an_error_of_a_team_is_raised(threads):
    with pytest.raises(ValueError, match="no room"), Team(threads) as team:
        team.run(lambda begin, end: fail(), 0, 100)
