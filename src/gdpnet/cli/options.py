"""Arguments and options that several commands share, checked before torch is imported."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from gdpnet.cli import completion
from gdpnet.config import Config, read_config, shipped_config, task_config
from gdpnet.data.datasets.known import DATASETS, check_name
from gdpnet.errors import ConfigError, RunFolderError, nearest

GENERAL, DATA, MODEL, OUTPUT, COMPUTING = "Options", "Data", "Model and settings", "Output", "Computing"
"""Groups of options in the help."""

COLUMN_ROLES = ("source", "target", "weight", "node", "label", "split", "features")
SUFFIXES = (".csv", ".parquet")


Device = Literal["auto", "cpu", "cuda"]
SPLITS = ("paper", "random")
TaskKind = Literal["classification", "multi-label", "links", "clusters"]
FeatureKind = Literal["one-hot", "structural"]


def check_graph(name: str | None) -> str | None:
    """Refuse a graph that does not exist."""
    if name is not None:
        check_name(name)
    return name


def check_run(path: Path) -> Path:
    """Refuse a run folder that does not exist."""
    if not path.is_dir():
        raise RunFolderError(f"there is no run folder {path}")
    return path


def check_split(text: str | None) -> str | None:
    """Refuse a split that is neither a name nor three shares."""
    if text is not None and text not in SPLITS and not is_shares(text):
        raise ConfigError(f"--split must be paper, random or shares such as 60/20/20, found '{text}'")
    return text


def is_shares(text: str) -> bool:
    """Return whether a text has the form of three shares, such as 60/20/20."""
    return re.fullmatch(r"[\d.]+/[\d.]+/[\d.]+", text) is not None


def check_columns(words: list[str] | None) -> list[str] | None:
    """Refuse column names that are not ``role=name``."""
    for word in words or []:
        role, separator, name = word.partition("=")
        if not separator or not name:
            raise ConfigError(f"--column must have the form role=name, found '{word}'")
        if role not in COLUMN_ROLES:
            raise ConfigError(f"there is no column role '{role}'{nearest(role, COLUMN_ROLES)}")
        names = name.split(",")
        if role == "features" and len(set(names)) != len(names):
            raise ConfigError(f"--column features must name each column once, found '{name}'")
    return words


def option(panel: str, spec: str, help_text: str, **more: Any) -> Any:
    """Declare an option in a group of the help, its names and value as they are shown there: ``--out FILE``."""
    names = [word for word in spec.split() if word.startswith("-")]
    value = spec.split()[len(names) :]
    more |= {"metavar": value[0]} if value else {}
    return typer.Option(*names, help=help_text, rich_help_panel=panel, **more)


def flag(panel: str, name: str, help_text: str, **more: Any) -> Any:
    """Declare an option without a value in a group of the help."""
    return option(panel, name, help_text, metavar="", **more)


data, model, output, computing = (partial(option, panel) for panel in (DATA, MODEL, OUTPUT, COMPUTING))
"""Declare an option in that group."""

GraphName = Annotated[
    str,
    typer.Argument(
        metavar="GRAPH",
        callback=check_graph,
        autocompletion=completion.graphs,
        help=f"Name of a dataset ({', '.join(DATASETS)} or synthetic), or path of a folder of tables, of a store "
        "or of an .npz file.",
    ),
]
OptionalGraph = Annotated[
    str | None,
    typer.Argument(
        metavar="GRAPH",
        callback=check_graph,
        autocompletion=completion.graphs,
        help="Graph to use.",
        show_default="the graph that the run was trained on",
    ),
]
GraphNames = Annotated[
    list[str],
    data(
        "--dataset GRAPH",
        "Name of a dataset or path of a graph; repeat for several.",
        autocompletion=completion.graphs,
    ),
]
RunPath = Annotated[
    Path,
    typer.Argument(
        metavar="RUN",
        callback=check_run,
        autocompletion=completion.runs,
        help="Run folder written by `gdpnet train`.",
    ),
]
_split = partial(
    data,
    "--split SPLIT",
    "Split of the nodes: paper (that of the dataset or of your files), random, or shares of training, validation and "
    "test nodes such as 60/20/20, drawn with the seed.",
    callback=check_split,
)
SplitName = Annotated[str, _split()]
RunSplit = Annotated[str | None, _split(show_default="as the run was trained, else paper")]
DataDir = Annotated[
    Path | None,
    data(
        "--data-dir FOLDER",
        "Folder of the datasets Planetoid and CitationFull.",
        show_default="$GDPNET_DATA, else ~/.cache/gdpnet",
    ),
]
ColumnNames = Annotated[
    list[str] | None,
    data(
        "--column ROLE=NAME",
        f"Name of a column in your tables; repeat for several. Roles: {', '.join(COLUMN_ROLES)} (comma-separated "
        "names).",
        callback=check_columns,
    ),
]
Directed = Annotated[
    bool | None,
    flag(
        DATA,
        "--directed/--undirected",
        "Read edges as directed from source to target, or in both directions.",
        show_default="as the run was trained, else undirected",
    ),
]
TaskOption = Annotated[
    TaskKind | None, model("--task", "What to learn.", show_default="setting task.kind: classification")
]
Hops = Annotated[
    int | None,
    model(
        "--hops N",
        "Greatest distance of a candidate from its target.",
        min=1,
        max=3,
        show_default="setting policy.hops: 1",
    ),
]
FeaturesOption = Annotated[
    FeatureKind | None,
    model(
        "--features",
        "Features of a graph that has none: one-hot, or structural features computed from the edges around a node, "
        "which also work for new nodes and other graphs.",
        show_default="setting features.missing: one-hot",
    ),
]
ConfigFile = Annotated[Path | None, model("--config FILE", "TOML file with settings; see `gdpnet settings`.")]
Overrides = Annotated[
    list[str] | None,
    model(
        "--set SECTION.KEY=VALUE",
        "Change one setting; repeat for several. See `gdpnet settings`.",
        autocompletion=completion.settings,
    ),
]
OutFile = Annotated[Path, output("--out FILE", "CSV or Parquet file to write.")]
ShardedOut = Annotated[Path, output("--out PATH", "CSV or Parquet file to write; with --shards, a folder.")]
RunFolderOut = Annotated[Path, output("--out FOLDER", "Folder for the run.")]
NewFolder = Annotated[Path, output("--out FOLDER", "New or empty folder to write.")]
Shards = Annotated[
    bool,
    flag(
        OUTPUT,
        "--shards",
        "Process the graph in bounded memory and write a folder of Parquet files; run the same command again to "
        "continue after an interruption.",
    ),
]
EdgesPerShard = Annotated[
    int | None,
    output(
        "--shard-edges --edges-a-shard N",
        "Number of edges per shard.",
        min=1,
        show_default="1,048,576; 4,194,304 on a GPU",
    ),
]
NodeIds = Annotated[
    str | None, output("--nodes IDS", "Comma-separated ids of the nodes to write.", show_default="all nodes")
]
NodeFile = Annotated[
    Path | None, output("--nodes-from FILE", "Text file with the ids of the nodes to write, one per line.")
]
Records = Annotated[Path, output("--records FILE", "JSON Lines file that results are appended to.")]
ReportOnly = Annotated[
    bool, flag(OUTPUT, "--report-only", "Run nothing; report the results recorded so far.")
]
Json = Annotated[
    bool,
    flag(OUTPUT, "--json", "Print the result as one line of JSON, and everything else to standard error."),
]
Quiet = Annotated[
    bool, flag(GENERAL, "--quiet -q", "Print results and errors only, no notes and no progress.")
]
_seed = partial(
    computing, "--seed N", "Random seed; the same seed gives the same result.", min=0, max=2**32 - 1
)
Seed = Annotated[int, _seed()]
RunSeed = Annotated[int | None, _seed(show_default="0; with --resume that of the run")]
Jobs = Annotated[int, computing("--jobs N", "Number of parallel processes.", min=1)]
DeviceName = Annotated[Device, computing("--device", "Device; auto uses a GPU if there is one.")]


@dataclass(frozen=True)
class GraphSource:
    """How to open a graph."""

    data_dir: Path | None = None
    columns: Mapping[str, Any] = field(default_factory=dict)
    """Column name by role, for the roles that have another name than usual."""
    directed: bool | None = None
    """Whether edges keep their direction; None if no option says so."""

    @classmethod
    def of(
        cls, data_dir: DataDir = None, columns: ColumnNames = None, directed: Directed = None
    ) -> GraphSource:
        """Gather the options that say how to open a graph."""
        named = dict(word.split("=", 1) for word in columns or [])
        parts: dict[str, Any] = {
            role: tuple(name.split(",")) if role == "features" else name for role, name in named.items()
        }
        return cls(data_dir, parts, directed)

    def to_record(self) -> dict[str, Any]:
        """Return what a run folder stores to open its graph again."""
        folder = None if self.data_dir is None else str(self.data_dir.resolve())
        return {"data_dir": folder, "columns": dict(self.columns), "directed": bool(self.directed)}

    def or_from(self, record: Mapping[str, Any], *, same_graph: bool = True) -> GraphSource:
        """Return these options, completed by those of a run's record; for another graph by the direction alone."""
        if not record:
            return self
        directed = record["directed"] if self.directed is None else self.directed
        if not same_graph:
            return replace(self, directed=directed)
        columns = {
            role: tuple(name) if isinstance(name, list) else name for role, name in record["columns"].items()
        }
        known_dir = None if record["data_dir"] is None else Path(record["data_dir"])
        return GraphSource(self.data_dir or known_dir, self.columns or columns, directed)


def config_of(
    graph: str,
    file: Path | None = None,
    overrides: list[str] | None = None,
    task: TaskKind | None = None,
    changes: Mapping[str, Mapping[str, Any]] | None = None,
    own: Config | None = None,
) -> Config:
    """Return the settings: those of the file, else a run's own, else those shipped; then all changes."""
    base = read_config(file) if file is not None else own or shipped_config(graph)
    if task is not None:
        shipped = file is None and own is None and task in ("links", "clusters")
        base = task_config(task) if shipped else base.with_values({"task": {"kind": task}})
    return base.with_values(changes or {}).with_overrides(overrides or [])


def names_in(text: str, option: str, what: str) -> list[str]:
    """Return the comma-separated names of an option, each once."""
    names = list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise ConfigError(f"{option} must name at least one {what}")
    return names


def check_table_file(path: Path, option: str = "--out") -> None:
    """Refuse a file that is neither CSV nor Parquet."""
    if path.suffix not in SUFFIXES:
        raise ConfigError(f"{option} must end in {' or '.join(SUFFIXES)}, found '{path.name}'")
