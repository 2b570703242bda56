"""ROC AUC against numbers worked by hand and against scikit-learn."""

import math

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from gdpnet._core.roc import roc_auc


def auc(positive, score):
    return float(roc_auc(torch.tensor(positive), torch.tensor(score)))


def test_the_auc_is_the_share_of_pairs_in_the_right_order():
    assert auc([True, False, True], [0.9, 0.5, 0.1]) == 0.5
    assert auc([True, False, False, True], [0.9, 0.5, 0.4, 0.45]) == 0.75


def test_equal_scores_count_one_half():
    assert auc([True, False], [0.3, 0.3]) == 0.5
    assert auc([True, True, False, False], [0.5, 0.9, 0.5, 0.1]) == 3.5 / 4


def test_one_kind_alone_has_no_auc():
    assert math.isnan(auc([True, True], [0.1, 0.2]))
    assert math.isnan(auc([False, False], [0.1, 0.2]))


@given(
    st.lists(
        st.tuples(
            st.booleans(),
            st.one_of(st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.floats(0, 1, width=32)),
        ),
        min_size=2,
        max_size=60,
    )
)
@settings(deadline=None)
def test_the_auc_is_that_of_scikit_learn(rows):
    positive, score = zip(*rows, strict=True)
    assume(len(set(positive)) == 2)
    expected = roc_auc_score(positive, torch.tensor(score).numpy())
    assert auc(positive, score) == pytest.approx(expected, abs=1e-12)
