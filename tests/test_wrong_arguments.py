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
from gdpnet.transform import DenoiseTransform
from gdpnet.training.callbacks import EarlyStopping
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
    "GDPNet().fit(GRAPH, callbacks=None)": "callbacks must be a list, found NoneType",
    "GDPNet().fit(GRAPH, callbacks=5)": "callbacks must be a list, found int",
    "GDPNet().fit(GRAPH, callbacks=['x'])": "a callback must be a Callback or a function, found str",
    "GDPNet().fit(GRAPH, callbacks=[EarlyStopping])": (
        "a callback must be made of its class: EarlyStopping(), found the class"
    ),
    "GDPNet(task='links').fit(GRAPH, held_out='x')": (
        "the validation pairs held_out must be Pairs or None, found str"
    ),
    "GDPNet().fit(GRAPH, ranks=5)": "ranks must be Ranks or None, found int",
    "GDPNet(verbose='x').fit(GRAPH)": "verbose must be 0, 1 or 2, found str",
    "GDPNet(verbose=None).fit(GRAPH)": "verbose must be 0, 1 or 2, found NoneType",
    "GDPNet(verbose=float('nan')).fit(GRAPH)": "verbose must be 0, 1 or 2, found nan",
    "GDPNet(verbose=float('inf')).fit(GRAPH)": "verbose must be 0, 1 or 2, found inf",
    "GDPNet.from_config(None)": "the configuration must be a Config, found NoneType",
    "cross_validate('x', GRAPH, folds=2)": "the model must be a GDPNet, found str",
    "cross_validate(GDPNet(), GRAPH, folds='2')": (
        "the number of folds must be a whole number of at least 2, found str"
    ),
    "cross_validate(GDPNet(), GRAPH, scoring=5)": "scoring must be a score or a list of them, found int",
    "GridSearch(GDPNet(), {'training__epochs': ()}).fit(GRAPH)": (
        "the options of 'training__epochs' must hold at least one, found none"
    ),
    "GridSearch('x', {'epochs': [1]}).fit(GRAPH)": "the model must be a GDPNet, found str",
    "RandomSearch(GDPNet(), {'ppo__discount': Range('x', .99)}, trials=1)": (
        "the range of 'ppo__discount' must be one of finite numbers, found 'x'"
    ),
    "RandomSearch(GDPNet(), {'ppo__discount': Range(None, 1)})": (
        "the range of 'ppo__discount' must be one of finite numbers, found None"
    ),
    "RandomSearch(GDPNet(), {'ppo__discount': Range(float('nan'), 1)})": (
        "the range of 'ppo__discount' must be one of finite numbers, found nan"
    ),
    "RandomSearch(GDPNet(), {'ppo__discount': Range(1, 0)})": (
        "the range of 'ppo__discount' must ascend, found 1 to 0"
    ),
    "DenoiseTransform('x')(DATA)": "the model must be a GDPNet, found str",
    "EarlyStopping(5)": "the metric to monitor must be a name, found int",
    "EarlyStopping(np.ones(3))": "the metric to monitor must be a name, found ndarray",
    "EarlyStopping(patience=None)": (
        "the patience, in epochs, must be a whole number of at least 1, found NoneType"
    ),
    "EarlyStopping(min_delta='x')": "min_delta must be a number, found str",
    "load_dataset('cora', 5, download=False)": "the folder of datasets must be a path, found int",
}
"""Calls with an argument that is of no use, and what they say."""


def test_arguments_that_are_of_no_use_are_refused_in_one_sentence():
    """Run without the type checks of the tests, which users do not have."""
    words = [sys.executable, "-W", "ignore", "-c", SCRIPT]
    done = subprocess.run(words, input=json.dumps(list(REFUSED)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert {call: said for call, said in found.items() if said != REFUSED[call]} == {}
