"""Rounds shared among workers: which are played when the time is over."""

from campaigns.workers import play_all


def test_the_first_rounds_are_played_however_long_they_take_and_others_while_there_is_time(tmp_path):
    answers = play_all(
        list(range(9)), lambda task: {"round": task, "problems": []}, 2, -1.0, tmp_path, at_least=5
    )
    assert sorted(one["round"] for one in answers) == [0, 1, 2, 3, 4]
