"""Labels are described before training: counts, likely typos, tiny classes, quantities."""

import torch

from gdpnet.data.graph import Graph
from gdpnet.data.labels import class_counts, label_warnings, likely_typos


def _graph(names: list[str], split: list[int] | None = None) -> Graph:
    classes = sorted(set(names))
    labels = [classes.index(name) for name in names]
    return Graph.build([[0], [1]], torch.eye(len(names)), labels, class_names=classes, split=split)


def test_classes_are_counted_by_split() -> None:
    graph = _graph(["a", "a", "b", "b"], [1, 3, 1, 0])
    assert class_counts(graph) == [("a", 1, 0, 1, 0), ("b", 1, 0, 0, 1)]


def test_a_rare_class_with_nearly_the_name_of_a_frequent_one_is_a_likely_typo() -> None:
    assert likely_typos(["fraud", "frad", "ok"], [50, 2, 900]) == [("frad", "fraud")]
    assert likely_typos(["Fraud", "fraud ", "ok"], [50, 30, 900]) == [("fraud ", "Fraud")]


def test_different_names_and_numbered_names_are_no_typos() -> None:
    assert likely_typos(["level 1", "level 2", "red", "rod"], [100, 3, 50, 40]) == []
    assert likely_typos(["10", "100"], [100, 2]) == []


def test_warnings_name_typos_and_tiny_classes() -> None:
    said = label_warnings(_graph(["spam"] * 30 + ["span"] * 2 + ["ham"] * 30))
    assert said == [
        "the class 'span' may be 'spam' in another spelling",
        "fewer than 5 nodes have the class 'span': it can hardly be learned or scored",
    ]


def test_many_different_numbers_look_like_a_quantity() -> None:
    quantities, classes = (
        [f"{number / 7:.3f}" for number in range(90)],
        [str(number % 60) for number in range(900)],
    )
    assert any("--task regression" in one for one in label_warnings(_graph(quantities)))
    assert not any("regression" in one for one in label_warnings(_graph(classes)))
