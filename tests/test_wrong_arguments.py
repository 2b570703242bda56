"""Arguments of the Python API that are of no use are refused in one sentence, before any work begins."""

import json
import subprocess
import sys

SCRIPT = """
import json, sys, itertools
import networkx as nx, numpy as np, pandas as pd, torch
from torch_geometric.data import Data
from gdpnet import *
from gdpnet.errors import GDPNetError
from gdpnet.model_selection import GridSearch, RandomSearch, Range, cross_validate

FRAME = pd.DataFrame({"id": ["a", "b"], "x": [1.0, 2.0]})
EDGES = pd.DataFrame({"source": ["a"], "target": ["b"]})
GRAPH = Graph.build([[0, 1, 2], [1, 2, 3]], [[1.0, 0.0], [0.0, 1.0]] * 2, [0, 1, 0, 1])
DATA = Data(x=torch.ones(2, 1), edge_index=torch.tensor([[0], [1]]))
said = {}
for call in json.load(sys.stdin):
    try:
        eval(call)
        said[call] = "nothing"
    except GDPNetError as error:
        said[call] = str(error)
    except Exception as error:
        said[call] = repr(error)
json.dump(said, sys.stdout)
"""

REFUSED = {
    "Graph.build([[0], [1]], np.eye(2), directed='no')": "'directed' must be True or False, found 'no'",
    "Graph.build([[0], [1]], np.eye(2), directed=None)": "'directed' must be True or False, found None",
    "Graph.build([[0], [1]], np.eye(2), transductive=1)": "'transductive' must be True or False, found 1",
    "Graph.build([[0], [1]], np.eye(2), class_names={'a': 1})": (
        "names of classes must be a list, in the order of classes, found dict"
    ),
    "Graph.build([[0], [1]], np.eye(2), class_names={'a', 'b'})": (
        "names of classes must be a list, in the order of classes, found set"
    ),
    "from_pandas(FRAME, EDGES, task=5)": "the task must be given by its name, found int",
    "from_pandas(FRAME, EDGES, directed='no')": "'directed' must be True or False, found 'no'",
    "from_pandas(FRAME, EDGES, weights=0)": "'weights' must be True or False, found 0",
    "from_pandas(FRAME, EDGES, drop_unknown=[])": "'drop_unknown' must be True or False, found list",
    "read_graph('.', directed='no')": "'directed' must be True or False, found 'no'",
    "read_graph('.', task=object())": "the task must be given by its name, found object",
    "from_networkx(nx.path_graph(3), directed='no')": "'directed' must be True or False, found 'no'",
    "from_pyg(DATA, directed='no')": "'directed' must be True or False, found 'no'",
    "from_pyg(DATA, edge_features='no')": "'edge_features' must be True or False, found 'no'",
}
"""Calls with an argument that is of no use, and what they say."""


def test_arguments_that_are_of_no_use_are_refused_in_one_sentence():
    """Run without the type checks of the tests, which users do not have."""
    words = [sys.executable, "-W", "ignore", "-c", SCRIPT]
    done = subprocess.run(words, input=json.dumps(list(REFUSED)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert {call: said for call, said in found.items() if said != REFUSED[call]} == {}
