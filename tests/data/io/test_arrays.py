"""The arrays of a stored graph: their names, types and shapes."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from gdpnet.data.io.arrays import SCHEMA, arrays_of, check_arrays, features_of
from gdpnet.errors import GraphError
from helpers.graphs import small_graph
from helpers.small import noisy_graph


@pytest.mark.parametrize("sparse", [False, True])
def test_the_arrays_of_a_graph_are_in_the_schema_and_pass_its_checks(sparse):
    graph = noisy_graph() if sparse else small_graph()
    graph = replace(graph, edge_weight=torch.ones(graph.num_edges))
    arrays, width = arrays_of(graph), graph.num_features if sparse else None
    assert arrays.keys() <= SCHEMA.keys()
    assert (width is None) == ("features" in arrays)
    assert ("spurious" in arrays) == (graph.truth is not None)
    check_arrays(arrays, width)
    assert features_of(arrays, width).shape == graph.features.shape


@pytest.mark.parametrize(
    ("name", "array", "sentence"),
    [
        ("labels", np.zeros(4), r"^array 'labels' must hold int64, found float64$"),
        ("features", np.ones((4, 2)), r"^array 'features' must hold float32 or float16, found float64$"),
        ("labels", np.zeros(3, np.int64), r"^array 'labels' must have shape \(4,\), found \(3,\)$"),
        (
            "features",
            np.ones((3, 2), np.float32),
            r"^array 'features' must have shape \(4, 2\), found \(3, 2\)$",
        ),
        ("features", np.ones(4, np.float32), r"^array 'features' must have two dimensions, found 1$"),
        (
            "row_ptr",
            np.array([0, 4, 2, 6, 6]),
            r"^array 'row_ptr' must ascend from 0 to 6, found other offsets$",
        ),
        ("row_ptr", np.array([0]), r"^the graph is empty: it has no node$"),
    ],
)
def test_an_array_of_a_wrong_type_or_shape_is_refused(name, array, sentence):
    with pytest.raises(GraphError, match=sentence):
        check_arrays(arrays_of(small_graph()) | {name: array}, None)


def test_sparse_features_need_as_many_values_as_columns():
    arrays = arrays_of(small_graph(sparse=True))
    with pytest.raises(GraphError, match=r"^array 'feature_value' must have shape \(4,\), found \(3,\)$"):
        check_arrays(arrays | {"feature_value": arrays["feature_value"][:3]}, 3)
