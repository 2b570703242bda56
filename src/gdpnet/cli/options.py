"""Arguments and options that several commands share, checked before torch is imported."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from gdpnet._core.files import Place, is_stream, place_of
from gdpnet._core.files.places import is_collapsed
from gdpnet.cli import completion
from gdpnet.config import Config, read_config, shipped_config, task_config
from gdpnet.data.datasets.known import ATTACKED, DATASETS, check_name
from gdpnet.errors import ConfigError, RunFolderError, nearest

GENERAL, DATA, MODEL, OUTPUT, COMPUTING = "Options", "Data", "Model and settings", "Output", "Computing"
"""Groups of options in the help."""

COLUMN_ROLES = ("source", "target", "weight", "node", "label", "split", "features")
SUFFIXES = (".csv", ".parquet")
READ_SUFFIXES = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz", ".parquet")


Device = Literal["auto", "cpu", "cuda"]
SPLITS = ("paper", "random")
TaskKind = Literal["classification", "multi-label", "regression", "links", "clusters"]
ClassWeight = Literal["none", "balanced"]
Metric = Literal["micro_f1", "macro_f1", "average_precision", "roc_auc", "log_loss"]
FEATURE_KINDS = ("one-hot", "structural")


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


def check_here(path: Path | None) -> Path | None:
    """Refuse the address of a place in an object store where only files of this machine are written."""
    if path is not None and is_collapsed(path):
        raise ConfigError(
            f"only stores and shards may be written to an object store: --out must be on this machine, found {path}"
        )
    return path


def as_place(text: str) -> Place:
    """Return the folder, the file or the place in an object store that a text names.

    A callback and not a parser: what a parser refuses is shown to the user, and an address might hold a password.
    """
    return place_of(text)


def check_split(text: str | None) -> str | None:
    """Refuse a split that is neither a name nor three shares."""
    if text is not None and text not in SPLITS and not is_shares(text):
        raise ConfigError(
            f"--split must be paper, random or shares that sum to 100, such as 60/20/20, found '{text}'"
        )
    return text


def is_shares(text: str) -> bool:
    """Return whether a text is three shares in percent, such as 60/20/20."""
    if re.fullmatch(r"\d+(\.\d+)?(/\d+(\.\d+)?){2}", text) is None:
        return False
    train, *others = (float(part) for part in text.split("/"))
    return train > 0 and abs(train + sum(others) - 100.0) < 1e-6


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
        help=f"Name of a dataset ({', '.join(DATASETS)}, {', '.join(ATTACKED)} or synthetic), or path of a folder of "
        "tables, of a table of edges, of a store or of an .npz file, or address of a store in an object store.",
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
        "Folder of the datasets Planetoid, CitationFull and Attacked.",
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
Weights = Annotated[
    bool | None,
    flag(
        DATA,
        "--weights/--no-weights",
        "Read the weights of edges, or leave them out.",
        show_default="as the run was trained, else read",
    ),
]
DropUnknown = Annotated[
    bool | None,
    flag(
        DATA,
        "--drop-unknown",
        "Leave out edges, and values in the table of features, whose nodes are missing or not in the table of nodes.",
        show_default=False,
    ),
]
NoEdgeFeatures = Annotated[
    bool,
    flag(
        DATA,
        "--no-edge-features",
        "Leave out the other columns of the edge table, its types and numbers, which are edge features otherwise.",
    ),
]
DroppedEdgeColumns = Annotated[
    list[str] | None,
    data("--drop-edge-column NAME", "Column of the edge table to leave out; repeat for several."),
]
TaskOption = Annotated[
    TaskKind | None, model("--task", "What to learn.", show_default="setting task.kind: classification")
]
ClassWeightOption = Annotated[
    ClassWeight | None,
    model(
        "--class-weight",
        "Weight of classes in the loss: balanced lets all weigh the same, however rare.",
        show_default="setting task.class_weight: none",
    ),
]
MetricOption = Annotated[
    Metric | None,
    model(
        "--metric",
        "Validation score that the best epoch, the heads and the threshold are chosen by.",
        show_default="setting training.metric: micro_f1",
    ),
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
FeatureColumns = Annotated[
    str | None,
    data(
        "--features NAMES",
        "Comma-separated names or patterns ('w*') of the feature columns. For a graph without features: one-hot, or "
        "structural features computed from the edges around a node, which also work for new nodes and other graphs.",
        show_default="all columns; one-hot without any",
    ),
]
Drop = Annotated[
    str | None, data("--drop NAMES", "Comma-separated names or patterns of feature columns to leave out.")
]
TextColumns = Annotated[
    str | None, data("--text NAMES", "Comma-separated names of columns whose words become features (tf-idf).")
]
CategoryColumns = Annotated[
    str | None,
    data("--category NAMES", "Comma-separated names of columns to read as categories, such as codes."),
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
OutFile = Annotated[Path, output("--out FILE", "CSV or Parquet file to write.", callback=check_here)]
_place = partial(output, parser=str, callback=as_place)
ShardedOut = Annotated[
    Any,
    _place(
        "--out PATH",
        "CSV or Parquet file to write; with --shards, a folder or an address in an object store.",
    ),
]
RunFolderOut = Annotated[
    Path, output("--out FOLDER", "New or empty folder for the run.", callback=check_here)
]
NewFolder = Annotated[Path, output("--out FOLDER", "New or empty folder to write.", callback=check_here)]
NewStore = Annotated[
    Any, _place("--out FOLDER", "New or empty folder to write, or an address in an object store.")
]
Force = Annotated[
    bool,
    flag(OUTPUT, "--force", "Replace files that this command did not write, which are refused otherwise."),
]
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
LowMemory = Annotated[
    bool,
    flag(
        OUTPUT,
        "--low-memory",
        "With --shards: keep tables of nodes in files, so that memory depends on the shard and not on the graph; "
        "this is the default if they do not fit into memory.",
    ),
]
Workers = Annotated[
    int | None,
    output(
        "--workers N", "With --shards: start Ray on this machine and share the work among N processes.", min=1
    ),
]
RayAddress = Annotated[
    str | None,
    output(
        "--ray ADDRESS", "With --shards: share the work among the machines of a Ray cluster; auto finds it."
    ),
]
SomeBlocks = Annotated[
    str | None,
    output(
        "--blocks A:B",
        "With --shards: work on these blocks of the current pass alone, in a job array: 0:100, or 0/8 for the first "
        "of eight shares.",
        show_default="all blocks, all passes",
    ),
]
NodeIds = Annotated[
    str | None, output("--nodes IDS", "Comma-separated ids of the nodes to write.", show_default="all nodes")
]
NodeFile = Annotated[
    Path | None, output("--nodes-from FILE", "Text file with the ids of the nodes to write, one per line.")
]
AsServed = Annotated[
    bool,
    flag(
        COMPUTING,
        "--as-served",
        "Compute the named nodes from their surroundings alone: bit for bit the answers of gdpnet serve.",
    ),
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
Jobs = Annotated[int, computing("--jobs N", "Number of parallel processes.", min=1, max=1024)]
DeviceName = Annotated[Device, computing("--device", "Device; auto uses a GPU if there is one.")]


@dataclass(frozen=True)
class GraphSource:
    """How to open a graph."""

    data_dir: Path | None = None
    columns: Mapping[str, Any] = field(default_factory=dict)
    """Column name by role, for the roles that have another name than usual, and which edge columns are used."""
    directed: bool | None = None
    """Whether edges keep their direction; None if no option says so."""
    weights: bool | None = None
    """Whether the weights of edges are read; None if no option says so."""
    drop_unknown: bool | None = None
    """Whether edges of unknown nodes are left out; None if no option says so."""
    missing: str | None = None
    """What takes the place of features if there are none; None if no option says so."""

    @classmethod
    def of(
        cls,
        data_dir: DataDir = None,
        columns: ColumnNames = None,
        features: FeatureColumns = None,
        drop: Drop = None,
        text: TextColumns = None,
        category: CategoryColumns = None,
        directed: Directed = None,
        weights: Weights = None,
        drop_unknown: DropUnknown = None,
        no_edge_features: NoEdgeFeatures = False,
        drop_edge_column: DroppedEdgeColumns = None,
    ) -> GraphSource:
        """Gather the options that say how to open a graph."""
        parts: dict[str, Any] = dict(word.split("=", 1) for word in columns or [])
        missing = features if features in FEATURE_KINDS else None
        lists = {"features": None if missing else features, "drop": drop, "text": text, "category": category}
        parts |= {role: names for role, names in lists.items() if names is not None}
        parts |= {role: tuple(parts[role].split(",")) for role in lists if role in parts}
        parts |= {"edge_features": False} if no_edge_features else {}
        parts |= {"dropped_edge_columns": tuple(drop_edge_column)} if drop_edge_column else {}
        return cls(data_dir, parts, directed, weights, drop_unknown, missing)

    def to_record(self) -> dict[str, Any]:
        """Return what a run folder stores to open its graph again."""
        folder = None if self.data_dir is None else str(self.data_dir.resolve())
        record = {"data_dir": folder, "columns": dict(self.columns), "directed": bool(self.directed)}
        return record | {"weights": self.weights is not False, "drop_unknown": bool(self.drop_unknown)}

    def or_from(self, record: Mapping[str, Any], *, same_graph: bool = True) -> GraphSource:
        """Return these options, completed by those of a run's record, but for where another graph lies."""
        if not record:
            return self
        directed = record["directed"] if self.directed is None else self.directed
        weights = record.get("weights") if self.weights is None else self.weights
        columns = {
            role: tuple(name) if isinstance(name, list) else name for role, name in record["columns"].items()
        }
        if not same_graph:
            inherited = columns | {"or_usual": True} if columns else columns
            return replace(self, directed=directed, weights=weights, columns=self.columns or inherited)
        known_dir = None if record["data_dir"] is None else Path(record["data_dir"])
        drop = record.get("drop_unknown") if self.drop_unknown is None else self.drop_unknown
        known = self.columns or columns
        return GraphSource(self.data_dir or known_dir, known, directed, weights, drop, self.missing)


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


def check_table_file(path: Path, option: str = "--out", suffixes: tuple[str, ...] = SUFFIXES) -> None:
    """Refuse a file that is neither CSV nor Parquet, or has none of other suffixes; devices and pipes get CSV."""
    if not path.name.endswith(suffixes) and not is_stream(path):
        *others, last = suffixes
        raise ConfigError(f"{option} must end in {', '.join(others)} or {last}, found '{path.name}'")
    if path.name in suffixes:
        raise ConfigError(f"{option} must have a name before {path.name}, found '{path}'")
    if path.parent.exists() and not path.parent.is_dir():
        raise ConfigError(f"{option} {path} cannot be a file: {path.parent} is no folder")
    if path.is_symlink() and Path(os.path.realpath(path)).is_symlink():
        raise ConfigError(f"{option} {path} is a link that leads to itself")
