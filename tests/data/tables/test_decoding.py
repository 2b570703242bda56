"""Features that one encoding made are turned back into columns, so that a model encodes them as in training."""

import numpy as np
import pyarrow as pa
import pytest

from gdpnet.config import FeaturesSettings
from gdpnet.data.graph import Graph
from gdpnet.data.io.pyg import from_pyg, to_pyg
from gdpnet.data.schema import encoded_as
from gdpnet.data.tables.decoding import decoded
from gdpnet.data.tables.encoding import Encoding
from gdpnet.data.tables.node_table import NodeTable
from gdpnet.errors import GraphError

TABLE = pa.table(
    {
        "age": [20.0, 35.0, None, 50.0, 41.0],
        "income": [1e4, 9e4, 5e4, 2e4, 1e6],
        "town": ["Rome", "Oslo", None, "Rome", "Bonn"],
        "member": [True, False, True, True, False],
    }
)
OTHER = pa.table(
    {
        "age": [70.0, 80.0, 60.0, None, 75.0],
        "income": [1e2, 3e2, 2e2, 5e2, 9e2],
        "town": ["Oslo", "Oslo", "Kyiv", None, "Oslo"],
        "member": [False, False, True, True, True],
    }
)
ALL = np.ones(5, dtype=bool)


@pytest.mark.parametrize("bound", [3.0, float("inf")])
def test_columns_come_back_from_their_features(bound) -> None:
    encoding = Encoding.fit(TABLE, ALL, settings=FeaturesSettings(bound=bound))
    found = decoded(encoding, encoding.transform(TABLE))
    assert found["town"].to_pylist() == TABLE["town"].to_pylist()
    assert found["member"].to_pylist() == [1.0, 0.0, 1.0, 1.0, 0.0]
    assert found["age"].to_pylist()[2] is None
    assert found["income"].to_pylist() == pytest.approx(TABLE["income"].to_pylist(), rel=1e-3)


def test_a_graph_with_a_scaling_of_its_own_is_encoded_as_in_training() -> None:
    """A model must see the same of a graph and of what torch_geometric carries of it."""
    graph = Graph.build([[0, 1], [1, 2]], np.zeros((5, 1))).with_table(NodeTable.fit(OTHER, ALL))
    training = Encoding.fit(TABLE, ALL)
    carried = from_pyg(to_pyg(graph))
    assert abs(carried.features[:, 0] - encoded_as(graph, training).features[:, 0]).max() > 0.5
    again = encoded_as(carried, training)
    np.testing.assert_allclose(again.features, encoded_as(graph, training).features, atol=1e-3)
    assert again.feature_names == training.feature_names


def test_a_model_of_plain_numbers_gets_plain_numbers() -> None:
    table = TABLE.select(["income"]).append_column("small", pa.array([0.1, 0.2, 0.3, 0.2, 0.1]))
    graph = Graph.build([[0, 1], [1, 2]], np.zeros((5, 1))).with_table(NodeTable.fit(table, ALL))
    again = encoded_as(from_pyg(to_pyg(graph)), None)
    np.testing.assert_allclose(again.features[:, 0], TABLE["income"].to_numpy(), rtol=1e-3)


def test_words_cannot_be_weighted_again() -> None:
    table = pa.table({"title": ["graph nets", "protein folding", "graph folding", "nets", "protein"]})
    graph = Graph.build([[0, 1], [1, 2]], np.zeros((5, 1)))
    graph = graph.with_table(NodeTable.fit(table, ALL, {"title": "text"}))
    training = Encoding.fit(table.slice(0, 3), np.ones(3, dtype=bool), {"title": "text"})
    with pytest.raises(
        GraphError, match="the words of column 'title' were weighted by the texts of this graph"
    ):
        encoded_as(from_pyg(to_pyg(graph)), training)
