from gdpnet._core.words import counted
from gdpnet.data.graph import Graph


def test_one_is_singular_and_everything_else_plural():
    assert counted(1, "node") == "1 node"
    assert counted(0, "node") == "0 nodes"
    assert counted(2000, "class", "classes") == "2,000 classes"


def test_notes_and_the_summary_of_a_graph_count_one_thing_as_one():
    graph = Graph.build([[0, 0, 1], [0, 1, 0]], [[1.0], [2.0], [3.0]], [0, 0, -1])
    assert graph.notes == (
        "1 self-loop was removed: a node is always part of its own mean",
        "1 edge is given in both directions and counts once",
        "1 node has no neighbour and is represented by its own features",
    )
    assert "1 node without a label" in repr(graph)
    assert "Graph of 1 node and 0 directed edges" in repr(Graph.build([[], []], [[1.0]]))
