"""Leads of one prediction over another, against numbers worked by hand."""

import math

import numpy as np
import pytest
import torch

from gdpnet._core.significance import Lead, lead_of_counts, lead_of_errors, lead_of_measure


def test_hits_are_compared_as_in_mcnemars_test():
    assert lead_of_counts(5, 4) == Lead(1, 3.0)
    assert not Lead(3.0, 3.0).exceeds(1.0)
    assert Lead(3.1, 3.0).exceeds(1.0)


def test_errors_are_compared_node_by_node():
    lead = lead_of_errors(torch.tensor([1.0, 1.0, 1.0]), torch.tensor([1.0, 2.0, 3.0]))
    assert lead == pytest.approx((1.0, 1.0 / math.sqrt(3)))


def test_one_node_alone_is_never_ahead():
    assert not lead_of_errors(torch.zeros(1), torch.ones(1)).exceeds(0.1)


def accuracy(predicted, truth, weights):
    return weights @ (predicted == truth) / weights.sum(axis=1)


def test_a_score_is_compared_over_resamples_of_the_same_nodes():
    truth = np.zeros(400, dtype=int)
    mine, other = truth.copy(), truth.copy()
    mine[:20], other[:40] = 1, 1
    lead = lead_of_measure(accuracy, mine, other, truth)
    assert lead.difference == pytest.approx(0.05)
    # 20 of 400 nodes make the difference: the standard error is sqrt(0.05 * 0.95 / 400)
    assert lead.deviation == pytest.approx(math.sqrt(0.05 * 0.95 / 400), rel=0.2)
    assert lead_of_measure(accuracy, mine, mine, truth) == Lead(0.0, 0.0)
