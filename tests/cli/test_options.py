"""Options that several commands share: how a graph is opened, and where its settings come from."""

from pathlib import Path

from gdpnet.cli.options import GraphSource, config_of
from gdpnet.cli.runs import open_named
from gdpnet.config import Config, shipped_config, task_config
from helpers.small import write_folder


def test_a_run_remembers_how_its_graph_was_opened_and_options_take_precedence():
    record = GraphSource(Path("/data"), {"label": "topic"}, True).to_record()
    assert GraphSource(directed=False).or_from(record) == GraphSource(
        Path("/data"), {"label": "topic"}, False, weights=True, drop_unknown=False
    )
    assert GraphSource(data_dir=Path("/else")).or_from(record).columns == {"label": "topic"}
    assert GraphSource(columns={"label": "kind"}).or_from(record).directed is True


def test_a_run_remembers_how_edges_were_read_and_another_graph_is_read_with_the_same_weights():
    record = GraphSource(weights=False, drop_unknown=True).to_record()
    same = GraphSource().or_from(record)
    assert (same.weights, same.drop_unknown) == (False, True)
    assert GraphSource(weights=True).or_from(record).weights is True
    other = GraphSource().or_from(record, same_graph=False)
    assert (other.weights, other.drop_unknown) == (False, None)


def test_a_run_of_version_0_1_is_opened_with_all_its_column_names(tmp_path):
    usual = {"source": "source", "target": "target", "weight": "weight", "node": "id"}
    columns = {**usual, "label": "label", "split": "split", "features": None}
    record = {"data_dir": None, "columns": columns, "directed": False}
    write_folder(tmp_path / "graph")
    assert open_named(str(tmp_path / "graph"), GraphSource().or_from(record), "paper", 0).num_nodes == 80
    columns["features"] = ["f1", "f4"]
    assert GraphSource().or_from(record).columns["features"] == ("f1", "f4")


def test_column_names_are_read_by_role():
    source = GraphSource.of(None, ["label=topic", "features=f1,f4"], None)
    assert source.columns == {"label": "topic", "features": ("f1", "f4")}


def test_settings_come_from_the_file_else_from_those_shipped_then_from_options(tmp_path):
    assert config_of("citeseer") == shipped_config("citeseer")
    assert config_of("cora", task="links") == task_config("links")
    (tmp_path / "mine.toml").write_text("[ppo]\ndiscount = 0.5\n")
    changes = {"policy": {"hops": 2}}
    found = config_of("citeseer", tmp_path / "mine.toml", ["ppo.passes=7"], "clusters", changes)
    assert found == Config().with_values(
        {"ppo": {"discount": 0.5, "passes": 7}, "task": {"kind": "clusters"}, "policy": {"hops": 2}}
    )
