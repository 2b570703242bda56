"""Arguments and options that several commands share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from gdpnet.config import Config, TaskSettings, read_config, shipped_config, task_config
from gdpnet.errors import ConfigError, nearest
from gdpnet.graph.files import USUAL_COLUMNS, Columns


class Device(StrEnum):
    """Where to compute."""

    auto = "auto"
    cpu = "cpu"
    cuda = "cuda"


GraphName = Annotated[
    str,
    typer.Argument(
        metavar="GRAPH",
        help="cora, citeseer, pubmed, dblp, synthetic, a folder of tables, a store or an .npz file",
    ),
]
OptionalGraph = Annotated[
    str | None, typer.Argument(metavar="[GRAPH]", help="the graph that the run was trained on, if left out")
]
RunPath = Annotated[Path, typer.Argument(metavar="RUN", help="folder of a run")]
ConfigFile = Annotated[Path | None, typer.Option("--config", help="settings in a TOML file")]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="section.key=value", help="one setting; may stand repeatedly"),
]
Seed = Annotated[int, typer.Option(help="one seed, one result", min=0, max=2**32 - 1)]
DeviceName = Annotated[Device, typer.Option(help="where to compute")]
Json = Annotated[bool, typer.Option("--json", help="end stdout with the result as one line of JSON")]
DataDir = Annotated[
    Path | None, typer.Option(help="folder with Planetoid and CitationFull; GDPNET_DATA by default")
]
TaskKind = Annotated[
    str | None,
    typer.Option("--task", help="what is learned: classification, multi-label, links or clusters"),
]
SplitName = Annotated[str, typer.Option(help="paper or random split of a named dataset")]
OutFile = Annotated[
    Path, typer.Option("--out", help="a .csv or .parquet file to write; with --shards a folder of them")
]
Shards = Annotated[
    bool,
    typer.Option(
        "--shards",
        help="go through the graph in bounded memory and write a folder of Parquet shards; goes on if stopped",
    ),
]
EdgesAShard = Annotated[
    int | None,
    typer.Option(
        help="edges of the targets of one shard, decided on together (default: 1,048,576, on a GPU 4,194,304)",
        min=1,
    ),
]
Directed = Annotated[bool, typer.Option("--directed", help="edges of files point one way")]
ColumnNames = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        metavar="role=name",
        help="what a column of your tables is called; roles: source, target, weight, node, label, split, features "
        "(names joined by commas)",
    ),
]


@dataclass(frozen=True)
class GraphSource:
    """How a graph is to be opened."""

    data_dir: Path | None = None
    columns: Columns = USUAL_COLUMNS
    directed: bool = False

    def to_record(self) -> dict[str, Any]:
        """Return what a run folder keeps, so that its graph can be opened again."""
        record = asdict(self)
        return record | {"data_dir": None if self.data_dir is None else str(self.data_dir.resolve())}

    def or_from(self, record: Mapping[str, Any]) -> GraphSource:
        """Return these options, or those of the record where none is given."""
        if self != GraphSource() or not record:
            return self
        columns = dict(record["columns"])
        columns["features"] = None if columns["features"] is None else tuple(columns["features"])
        data_dir = None if record["data_dir"] is None else Path(record["data_dir"])
        return GraphSource(data_dir, Columns(**columns), record["directed"])


def check_split(split: str) -> None:
    """Refuse a split of a dataset that is not known."""
    if split not in ("paper", "random"):
        raise ConfigError(f"--split must be paper or random, found '{split}'")


def source_of(data_dir: Path | None, columns: list[str] | None, directed: bool) -> GraphSource:
    """Gather the options that say how a graph is opened."""
    named: dict[str, Any] = {}
    for word in columns or []:
        role, separator, name = word.partition("=")
        known = list(Columns.__dataclass_fields__)
        if not separator or not name:
            raise ConfigError(f"--column has the form role=name, found '{word}'")
        if role not in known:
            raise ConfigError(f"there is no column role '{role}'{nearest(role, known)}")
        named[role] = tuple(name.split(",")) if role == "features" else name
    return GraphSource(data_dir, Columns(**named), directed)


def config_of(graph: str, file: Path | None, overrides: list[str] | None, task: str | None = None) -> Config:
    """Return the settings: those of the file, else those shipped for the task or graph; then the overrides."""
    base = read_config(file) if file is not None else shipped_config(graph)
    if task is not None:
        own = file is None and TaskSettings(kind=task).kind in ("links", "clusters")
        base = task_config(task) if own else base.with_values({"task": {"kind": task}})
    return base.with_overrides(overrides or [])
