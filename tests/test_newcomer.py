"""What a newcomer's exports and calls ran into: each is right, or refused in one sentence."""

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch

from gdpnet import Graph, from_pandas, read_graph, with_split
from gdpnet.data.labels import label_warnings
from gdpnet.data.node_numbers import node_numbers
from gdpnet.errors import GraphError
from helpers.commands import refuse, succeed, write_csv_graph
from helpers.small import noisy_graph

RING = "source,target\n" + "".join(f"n{place},n{(place + 1) % 40}\n" for place in range(40))


def nodes_with(labels) -> str:
    return "id,label,x\n" + "".join(f"n{place},{labels(place)},{place % 2}\n" for place in range(40))


# --- labels ---


def test_a_marker_of_missing_values_is_no_class(tmp_path):
    folder = write_csv_graph(
        tmp_path, nodes_with(lambda place: "n/a" if place % 4 == 0 else "ab"[place % 2]), RING
    )
    graph = read_graph(folder)
    assert graph.class_names == ("a", "b")
    assert int(graph.labelled.sum()) == 30
    assert any(note.startswith("10 labels 'n/a' of column 'label'") for note in graph.notes)


def test_a_marker_of_missing_values_is_no_number_to_predict(tmp_path):
    folder = write_csv_graph(
        tmp_path, nodes_with(lambda place: "NA" if place == 0 else f"{place / 7:.3f}"), RING
    )
    targets = read_graph(folder, task="regression").targets
    assert torch.isnan(targets).tolist() == [True] + [False] * 39


def test_a_class_with_few_test_nodes_is_said():
    labels = np.array([0] * 40 + [1] * 8)
    graph = with_split(Graph.build([[0], [1]], np.eye(48), labels, class_names=["ok", "fraud"]))
    assert label_warnings(graph) == ["fewer than 5 test nodes have the class 'fraud': its scores say little"]


def test_comparisons_refuse_numbers_without_naming_an_option_that_they_lack(tmp_path, capsys):
    folder = write_csv_graph(tmp_path, nodes_with(lambda place: f"{place / 7:.3f}"), RING)
    words = ("robustness", "--dataset", folder, "--methods", "gcn", "--records", tmp_path / "r.jsonl")
    assert refuse(capsys, *words) == (
        "this command compares methods on classes, but labels are fractions such as 0.143: give classes names"
    )


def test_the_split_of_numbers_is_not_said_to_be_by_class(tmp_path, capsys):
    folder = write_csv_graph(tmp_path, nodes_with(lambda place: f"{place / 7:.3f}"), RING)
    said = succeed(capsys, "store", folder, "--task", "regression", "--out", tmp_path / "store")
    assert "split 60/20/20 of the labelled nodes, evenly over the numbers, with seed 0" in said


# --- columns ---


def test_a_column_without_values_is_said_to_have_none():
    frame = pd.DataFrame({"id": ["a", "b"], "x": [1.0, 2.0], "empty": [None, None]})
    graph = from_pandas(frame, pd.DataFrame({"source": ["a"], "target": ["b"]}))
    assert ("left out", "empty", "no value") in graph.table.encoding.summary()


def test_columns_may_be_a_dictionary(tmp_path):
    folder = write_csv_graph(
        tmp_path, nodes_with(lambda place: "ab"[place % 2]).replace("id,", "account,"), RING
    )
    assert read_graph(folder, columns={"node": "account"}).node_ids[0] == "n0"
    assert read_graph(folder, columns={"node": "account", "drop": "x"}).table is None
    with pytest.raises(GraphError, match="there is no column role 'nod'; did you mean 'node'"):
        read_graph(folder, columns={"nod": "account"})


@pytest.mark.slow
def test_a_run_with_named_columns_reads_a_noisy_copy_of_its_graph(tmp_path, capsys):
    nodes = nodes_with(lambda place: "ab"[place % 2]).replace("id,label", "account,kind")
    folder = write_csv_graph(tmp_path, nodes, RING.replace("source,target", "payer,payee"))
    named = [f"--column={one}" for one in ("node=account", "label=kind", "source=payer", "target=payee")]
    quick = ("--set", "training.epochs=1", "--set", "training.warmup=1", "--no-check", "--device", "cpu")
    succeed(capsys, "train", folder, *named, "--out", tmp_path / "run", *quick)
    succeed(capsys, "noise", folder, *named, "--kind", "random-links=0.5", "--out", tmp_path / "noisy")
    assert "micro f1" in succeed(capsys, "evaluate", tmp_path / "run", tmp_path / "noisy", "--device", "cpu")


# --- nodes ---


def test_ids_may_be_written_with_decimals():
    graph = Graph.build([[0], [1]], np.eye(3), node_ids=np.array([7, 8, 9]))
    assert graph.numbers_of(["8.0", 9.0]).tolist() == [1, 2]
    named = Graph.build([[0], [1]], np.eye(2), node_ids=np.array(["8.0", "8"]))
    assert named.numbers_of(["8.0", "8"]).tolist() == [0, 1]


@pytest.mark.parametrize("mask", [[False, True, True], pd.Series([False, True, True])])
def test_lists_and_columns_of_true_and_false_are_masks(mask):
    graph = Graph.build([[0], [1]], np.eye(3), node_ids=["a", "b", "c"])
    assert node_numbers(graph, mask).tolist() == [1, 2]
    with pytest.raises(GraphError, match="a mask must hold true or false for each of 3 nodes"):
        node_numbers(graph, [True, False])


# --- wrong types ---

GRAPH = noisy_graph(20)
REFUSED = {
    "read_graph(None)": "the graph must be the path of a file or folder, found NoneType",
    "read_graph('.', columns=['account'])": "columns must be Columns, or a dictionary from role to name, found list",
    "from_networkx({'a': 1})": "the graph must be a NetworkX graph, found dict",
    "from_scipy('x')": "the adjacency matrix must be a matrix of numbers, found str",
    "to_pyg(None)": "the graph must be a gdpnet Graph, found NoneType",
    "to_pandas(FRAME)": "the graph must be a gdpnet Graph, found DataFrame",
    "to_networkx(nx.path_graph(2))": "the graph must be a gdpnet Graph, found Graph",
    "with_split(None)": "the graph must be a gdpnet Graph, found NoneType",
    "with_split(GRAPH, (1, 2, 3))": "a split must be shares of training, validation and test nodes that sum to 1",
    "with_split(GRAPH, (0.5, 0.5))": "a split must be shares of training, validation and test nodes that sum to 1",
    "GDPNet(task=5).fit(GRAPH)": "the task must be a name, its settings or a Task, found int",
    "GDPNet(seed='a').fit(GRAPH)": "the seed must be a whole number from 0 to 9,223,372,036,854,775,807, found 'a'",
    "from_pandas({'id': ['a']}, EDGES)": "nodes must be a pandas DataFrame, found dict",
    "from_pandas(pd.concat([FRAME, FRAME], axis=1), EDGES)": "the nodes frame must have one column 'id'",
    "from_pandas(FRAME.set_index(['id', 'x']), EDGES)": "ids in one column or in a plain index",
    "cross_validate(GDPNet(), GRAPH, folds=1)": "the number of folds must be a whole number of at least 2, found 1",
    "GridSearch(GDPNet(), {'epochs': 1})": "the options of 'epochs' must be a list or a range, found 1",
    "GridSearch(GDPNet(), None)": "the grid must be a dictionary from settings to options, found NoneType",
    "MODEL.denoise(GRAPH, threshold='0.5')": "must lie between 0 and 1, found '0.5'",
    "GDPNet.load(1.5)": "a model file must be named by its path, found float",
    "GDPNet.load(FRAME)": "a model file must be named by its path, found DataFrame",
    "GDPNet.load('x' * 5000)": "File name too long",
    "GDPNet.load('a\\0b')": "the path of a model file must be one that a file can have",
    "GDPNet.load('.', device=FRAME)": "the device must be auto, cpu or cuda, found ",
    "MODEL.denoise(GRAPH, symmetric=FRAME)": "symmetric must be true or false, found DataFrame",
    "load_dataset(5)": "a dataset must be named by text, found int",
    "load_dataset('cora', split=FRAME)": "the split of a dataset must be paper or random, found ",
    "synthetic_graph(5)": "a synthetic graph needs SyntheticSettings, found int",
    "cross_validate(GDPNet(), GRAPH, folds='5')": "folds must be a whole number of at least 2, found str",
    "MODEL.save(None)": "a model file must be named by its path, found NoneType",
    "GRAPH.nodes_in(FRAME['id'])": "a split must be one of none, train, validation, test, found ",
    "GRAPH.numbers_of(1.5)": "the node ids cannot be read: 'float' object is not iterable",
    "GRAPH.with_feature_names(1.5)": "the names of feature columns cannot be read: ",
}
"""Calls with a wrong type, and what they say."""

SCRIPT = """
import json, sys
import networkx as nx, pandas as pd
from gdpnet import *
from gdpnet.errors import GDPNetError

FRAME, EDGES = pd.DataFrame({"id": ["a"], "x": [1.0]}), pd.DataFrame({"source": ["a"], "target": ["a"]})
GRAPH = Graph.build([[0, 1, 2], [1, 2, 3]], [[1.0, 0.0], [0.0, 1.0]] * 2, [0, 1, 0, 1])
MODEL = GDPNet(epochs=1, warmup=1, hopwise__use=False, device="cpu").fit(GRAPH)
said = {}
for call in json.load(sys.stdin):
    try:
        eval(call)
        said[call] = "nothing"
    except GDPNetError as error:
        said[call] = str(error)
json.dump(said, sys.stdout)
"""


@pytest.mark.slow
def test_wrong_types_are_refused_in_one_sentence():
    """Run without the type checks of the tests, which users do not have."""
    words = [sys.executable, "-W", "ignore", "-c", SCRIPT]
    done = subprocess.run(words, input=json.dumps(list(REFUSED)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert {call: said for call, said in found.items() if REFUSED[call] not in said} == {}


def test_a_split_may_be_written_as_on_the_command_line():
    assert torch.equal(with_split(GRAPH, "60/20/20").split, with_split(GRAPH).split)
