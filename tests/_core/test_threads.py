"""Jobs in threads: none is lost, errors are raised, order is kept."""

import threading

import pytest

from gdpnet._core.threads import Background, in_order


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


def test_results_come_in_order():
    assert list(in_order(lambda number: number * number, range(50))) == [n * n for n in range(50)]
    assert list(in_order(str, [])) == []
