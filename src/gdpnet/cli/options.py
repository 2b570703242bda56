"""Arguments and options that several commands share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from jaxtyping import Int
from torch import Tensor

from gdpnet.config import Config, TaskSettings, read_config, shipped_config, task_config
from gdpnet.data.graph import Graph
from gdpnet.data.io.files import USUAL_COLUMNS, Columns
from gdpnet.errors import ConfigError, nearest


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
Hops = Annotated[
    int | None,
    typer.Option(
        "--hops",
        min=1,
        max=3,
        help="candidates are nodes within so many hops; 1, direct neighbours, if left out",
    ),
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
Directed = Annotated[
    bool | None,
    typer.Option(
        "--directed/--undirected",
        help="edges of files point one way, from source to target, and the target hears the source; or every edge "
        "counts both ways (default: as the run was trained, else both ways)",
        show_default=False,
    ),
]
MissingFeatures = Annotated[
    str | None,
    typer.Option(
        "--features",
        metavar="one-hot|structural",
        help="what nodes get where the graph has no features: one-hot (default), or what the links around them say, "
        "which also serves new nodes and other graphs",
    ),
]
NodeIds = Annotated[
    str | None, typer.Option("--nodes", help="ids of the nodes to write, parted by commas (default: all)")
]
NodeFile = Annotated[
    Path | None, typer.Option("--nodes-from", help="file with one id a line, of the nodes to write")
]
PairFile = Annotated[
    Path | None,
    typer.Option(
        "--pairs",
        help="where the task is links: a .csv or .parquet table of pairs of nodes, with columns source and target",
    ),
]
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
    directed: bool | None = None
    """Whether edges keep their direction; nothing where nobody said."""

    def to_record(self) -> dict[str, Any]:
        """Return what a run folder keeps, so that its graph can be opened again."""
        record = asdict(self) | {"directed": bool(self.directed)}
        return record | {"data_dir": None if self.data_dir is None else str(self.data_dir.resolve())}

    def or_from(self, record: Mapping[str, Any]) -> GraphSource:
        """Return these options, each as in the record where it is not given."""
        if not record:
            return self
        columns = dict(record["columns"])
        columns["features"] = None if columns["features"] is None else tuple(columns["features"])
        known_dir = None if record["data_dir"] is None else Path(record["data_dir"])
        return GraphSource(
            self.data_dir or known_dir,
            Columns(**columns) if self.columns == USUAL_COLUMNS else self.columns,
            record["directed"] if self.directed is None else self.directed,
        )

    def directed_as(self, record: Mapping[str, Any]) -> GraphSource:
        """Return these options, with the direction of the record where none is given."""
        return self if self.directed is not None or not record else replace(self, directed=record["directed"])


def check_split(split: str) -> None:
    """Refuse a split of a dataset that is not known."""
    if split not in ("paper", "random"):
        raise ConfigError(f"--split must be paper or random, found '{split}'")


def source_of(data_dir: Path | None, columns: list[str] | None, directed: bool | None) -> GraphSource:
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
        if role == "features" and len(set(named[role])) != len(named[role]):
            raise ConfigError(f"--column features must name each column once, found '{name}'")
    return GraphSource(data_dir, Columns(**named), directed)


def numbers_asked(graph: Graph, ids: str | None, file: Path | None) -> Int[Tensor, "asked"] | None:
    """Return the numbers of the nodes that --nodes and --nodes-from name, in that order; nothing if none is named."""
    if ids is None and file is None:
        return None
    names = [] if ids is None else [name.strip() for name in ids.split(",")]
    if file is not None:
        try:
            names += [line.strip() for line in file.read_text(encoding="utf-8").splitlines()]
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(
                f"--nodes-from must name a text file with one id a line, found {file}"
            ) from error
    names = [name for name in names if name]
    if not names:
        raise ConfigError("--nodes and --nodes-from must name at least one node, found none")
    return graph.numbers_of(names)


def config_of(
    graph: str,
    file: Path | None,
    overrides: list[str] | None,
    task: str | None = None,
    hops: int | None = None,
) -> Config:
    """Return the settings: those of the file, else those shipped for the task or graph; then the overrides."""
    base = read_config(file) if file is not None else shipped_config(graph)
    if task is not None:
        own = file is None and TaskSettings(kind=task).kind in ("links", "clusters")
        base = task_config(task) if own else base.with_values({"task": {"kind": task}})
    base = base if hops is None else base.with_values({"policy": {"hops": hops}})
    return base.with_overrides(overrides or [])
