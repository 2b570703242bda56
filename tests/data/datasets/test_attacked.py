"""Attacked graphs by name: counts, split, checksum, and what is said where a file is absent."""

import os
import shutil

import numpy as np
import pytest
import torch

from gdpnet.data.datasets.citation import load_dataset
from gdpnet.data.datasets.known import ATTACKED, check_name, is_present
from gdpnet.data.io.open import open_graph
from gdpnet.errors import DatasetError
from gdpnet.training.data import cut_for_training
from helpers.commands import refuse

SHARE_OF_ONE_CLASS = {"0.05": 0.773, "0.1": 0.745, "0.15": 0.713, "0.2": 0.681, "0.25": 0.661}

needs_files = pytest.mark.skipif(
    "GDPNET_DATA" not in os.environ or not all(map(is_present, ATTACKED)),
    reason="GDPNET_DATA does not name a folder with the attacked graphs",
)


@needs_files
@pytest.mark.parametrize("name", ATTACKED)
def test_an_attacked_graph_has_the_published_counts_and_split_and_is_transductive(name):
    known, graph = ATTACKED[name], load_dataset(name)
    assert (graph.num_nodes, graph.num_edges) == (known.nodes, 2 * known.links)
    assert (graph.num_features, graph.num_classes) == (known.features, known.classes)
    assert [graph.nodes_in(part).numel() for part in ("train", "validation", "test")] == [247, 249, 1988]
    same = (graph.labels[graph.target] == graph.labels[graph.neighbour]).float().mean()
    assert float(same) == pytest.approx(SHARE_OF_ONE_CLASS[known.rate], abs=5e-4)
    assert graph.transductive


@needs_files
def test_training_on_an_attacked_graph_sees_every_node_and_no_label_but_those_of_training():
    graph = load_dataset("cora-metattack-0.25")
    cut = cut_for_training(graph, seed=0)
    assert cut.inner.num_edges == graph.num_edges
    assert cut.targets.tolist() == graph.nodes_in("train").tolist()
    assert cut.inner.labelled.nonzero().flatten().tolist() == cut.targets.tolist()


@needs_files
def test_the_split_of_an_attacked_graph_is_fixed_unless_shares_are_given():
    with pytest.raises(DatasetError, match="is fixed, found --split random: leave it out"):
        open_graph("cora-metattack-0.1", split="random")
    drawn = open_graph("cora-metattack-0.1", split="10/10/80", seed=1)
    assert drawn.transductive
    assert not torch.equal(drawn.split, load_dataset("cora-metattack-0.1").split)


@needs_files
def test_another_file_under_the_name_of_an_attacked_graph_is_not_opened(tmp_path):
    folder = tmp_path / "Attacked" / "cora"
    folder.mkdir(parents=True)
    source = ATTACKED["cora-metattack-0.2"]
    # a readable graph of the same shape, but at another rate
    shutil.copy(source.raw_folder() / source.file, folder / "metattack_0.25.npz")
    with pytest.raises(DatasetError, match=r"metattack_0.25.npz is not the published file \(its sha256"):
        load_dataset("cora-metattack-0.25", tmp_path)


def test_an_absent_file_is_named_in_one_sentence_and_nothing_is_downloaded(tmp_path, capsys):
    path = tmp_path / "Attacked" / "cora" / "metattack_0.25.npz"
    said = refuse(capsys, "train", "cora-metattack-0.25", "--data-dir", tmp_path, "--out", tmp_path / "run")
    assert said == (
        f"'cora-metattack-0.25' is never downloaded, and {path} is not there: put the published file there, or point "
        "--data-dir or GDPNET_DATA at a folder that has Attacked/cora/metattack_0.25.npz"
    )
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_file_of_the_right_name_is_refused(tmp_path):
    folder = tmp_path / "Attacked" / "cora"
    folder.mkdir(parents=True)
    np.savez(folder / "metattack_0.25.npz", labels=np.zeros(3))
    with pytest.raises(DatasetError, match="is not the published file"):
        load_dataset("cora-metattack-0.25", tmp_path)


def test_a_rate_that_was_not_published_is_answered_with_the_nearest_name():
    with pytest.raises(DatasetError, match=r"did you mean 'cora-metattack-0\.25'"):
        check_name("cora-metattack-0.255")
