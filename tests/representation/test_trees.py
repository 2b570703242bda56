"""Boosted trees as tensors predict what scikit-learn predicts."""

import numpy as np
import pytest
import torch
from sklearn.ensemble import HistGradientBoostingClassifier

from gdpnet.representation import trees as trees_module
from gdpnet.representation.trees import BoostedTrees, trees_of


def drawn(classes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return rows with ties, and classes that steps of two columns decide."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(400, 4)).astype(np.float32)
    rows[:, 3] = rng.integers(0, 3, 400)
    label = ((rows[:, 0] > 0.3).astype(int) + 2 * (rows[:, 3] == 1)) % classes
    return rows, np.where(rng.random(400) < 0.1, rng.integers(0, classes, 400), label)


def fitted(rows: np.ndarray, label: np.ndarray, **given) -> HistGradientBoostingClassifier:
    return HistGradientBoostingClassifier(max_iter=15, **given).fit(rows, label)


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_probabilities_are_those_of_scikit_learn(classes):
    rows, label = drawn(classes)
    model = fitted(rows, label)
    asked = np.concatenate([rows, drawn(classes, seed=1)[0]])
    found = BoostedTrees(trees_of([[(model, model.classes_)]], classes)).to_probabilities(
        torch.from_numpy(asked)
    )
    np.testing.assert_allclose(found.numpy(), model.predict_proba(asked), atol=1e-6)


def test_a_value_at_a_threshold_or_just_above_goes_where_scikit_learn_sends_it():
    rows, label = drawn(2)
    model = fitted(rows, label)
    tensors = trees_of([[(model, model.classes_)]], 2)
    splits = (tensors["left"] != torch.arange(len(tensors["left"]))).nonzero().flatten()[:100]
    at, above = rows[: len(splits)].copy(), rows[: len(splits)].copy()
    place, threshold = (
        (np.arange(len(splits)), tensors["feature"][splits].numpy()),
        tensors["threshold"][splits],
    )
    at[place], above[place] = threshold.numpy(), np.nextafter(threshold.numpy(), np.float32(np.inf))
    trees = BoostedTrees(tensors)
    for asked in (at, above):
        found = trees.to_probabilities(torch.from_numpy(asked)).numpy()
        np.testing.assert_allclose(found, model.predict_proba(asked), atol=1e-6)
    assert not np.allclose(model.predict_proba(at), model.predict_proba(above))


def test_a_fold_of_one_class_alone_needs_no_tree():
    trees = BoostedTrees(trees_of([[(None, np.array([1]))]], 3))
    assert trees.to_probabilities(torch.zeros(2, 4)).tolist() == [[0.0, 1.0, 0.0]] * 2


def test_fold_models_are_averaged_and_a_class_that_one_does_not_know_has_no_probability_there():
    rows, label = drawn(3)
    both = label < 2
    models = [fitted(rows, label), fitted(rows[both], label[both])]
    trees = BoostedTrees(trees_of([[(model, model.classes_)] for model in models], 3))
    one, two = (model.predict_proba(rows) for model in models)
    two = np.hstack([two, np.zeros((len(rows), 1))])
    by_fold = trees.fold_probabilities(torch.from_numpy(rows)).numpy()
    np.testing.assert_allclose(by_fold, np.stack([one, two], axis=1), atol=1e-6)
    mean = trees.to_probabilities(torch.from_numpy(rows)).numpy()
    np.testing.assert_allclose(mean, (one + two) / 2, atol=1e-6)


def test_several_labels_have_a_classifier_each_and_a_constant_label_needs_none():
    rows, label = drawn(2)
    model = fitted(rows, label)
    fold = [(model, np.array([1])), (None, np.array([2]))]
    found = BoostedTrees(trees_of([fold], 4), exclusive=False).to_probabilities(torch.from_numpy(rows))
    np.testing.assert_allclose(found[:, 1].numpy(), model.predict_proba(rows)[:, 1], atol=1e-6)
    assert found[:, [0, 3]].max() == 0.0
    assert found[:, 2].unique().tolist() == [0.5]


def test_the_number_of_nodes_at_once_changes_nothing(monkeypatch):
    rows, label = drawn(3)
    model = fitted(rows, label)
    trees, asked = BoostedTrees(trees_of([[(model, model.classes_)]], 3)), torch.from_numpy(rows)
    whole = trees.to_probabilities(asked)
    monkeypatch.setattr(trees_module, "_AT_ONCE", 1)
    assert torch.equal(trees.to_probabilities(asked[:9]), whole[:9])
    assert trees.to_probabilities(asked[:0]).shape == (0, 3)
