"""A run folder: the files of a training run, where a run may be started, and what its description must hold."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gdpnet._core.files import check_no_links, found_in, write_json, write_text
from gdpnet._core.json_file import read_json
from gdpnet._core.limits import MOST_SEED
from gdpnet._core.version import __version__
from gdpnet.config import Config, read_config
from gdpnet.data.graph import Graph
from gdpnet.data.io.arrays import fingerprint
from gdpnet.data.io.column_names import Columns
from gdpnet.errors import GDPNetError, RunFolderError
from gdpnet.inference.model import MODEL_NAME
from gdpnet.training.old_run import delete_run

FORMAT = "gdpnet-run"
"""Marks ``run.json``; versions up to 0.1 wrote none."""

DEMO = "gdpnet-demo"
"""Marks ``demo.json``."""

_TYPES: dict[str, tuple[type, ...]] = {
    "graph": (str,),
    "seed": (int,),
    "split": (str,),
    "source": (dict,),
    "version": (str,),
    "fingerprint": (str,),
    "config": (dict,),
}
_REQUIRED = ("graph", "seed", "fingerprint")
_SOURCE: dict[str, tuple[type, ...]] = {
    "data_dir": (str, type(None)),
    "columns": (dict,),
    "directed": (bool,),
    "weights": (bool, type(None)),
    "drop_unknown": (bool, type(None)),
}


class RunFolder:
    """Paths of the files of a run."""

    def __init__(self, path: str | Path) -> None:
        self.path = path = Path(path)
        self.config = path / "config.toml"  # the effective settings
        self.about = path / "run.json"  # graph, seed, version
        self.model = path / MODEL_NAME
        self.checkpoint = path / "checkpoint.safetensors"  # the state that a stopped run resumes from
        self.history = path / "history.jsonl"  # one line per epoch
        self.metrics = path / "metrics.json"  # the final ones
        self.suspected = path / "suspected_labels.csv"  # written only if there are any
        self.split = path / "split.csv"  # the split of the nodes by their ids
        self.figures = path / "figures"  # a folder
        self.profile = [path / "profile.html", path / "profile.json"]  # written only if asked for
        self.demo = path / "demo.json"  # in place of run.json, if the demo wrote the folder

    def check_files(self) -> None:
        """Refuse links in place of the files of a run, which would be followed, and folders in place of files."""
        files = [self.about, self.config, self.model, self.checkpoint, self.history, self.metrics]
        files += [self.suspected, self.split, *self.profile, self.demo]
        pictures = list(self.figures.glob("*"))
        check_no_links(self.path, [*files, self.figures, *pictures])
        for path in (*files, *(one for one in pictures if one.suffix == ".png")):
            if path.is_dir():
                self._refuse(path, "a file", "a folder")
        if self.figures.exists() and not self.figures.is_dir():
            self._refuse(self.figures, "a folder", "a file")

    def _refuse(self, path: Path, wanted: str, found: str) -> None:
        name = path.relative_to(self.path)
        raise RunFolderError(
            f"a run needs {wanted} called '{name}', found {found} in {self.path}: move it, or choose another --out"
        )

    @property
    def is_demo(self) -> bool:
        """Return whether the demo wrote the folder."""
        try:
            return self.demo.is_file() and read_json(self.demo, error=RunFolderError).get("format") == DEMO
        except RunFolderError:
            return False


def check_free(path: Path, *, force: bool = False) -> None:
    """Refuse a folder that holds a run or files of others; with ``force`` only what is no folder, and links."""
    if path.exists() and not path.is_dir():
        raise RunFolderError(f"{path} is a file, a run needs a folder")
    if force:
        RunFolder(path).check_files()
    if force or not path.is_dir():
        return
    run, found = RunFolder(path), found_in(path)
    if run.model.exists() or is_marked(run):
        raise RunFolderError(
            f"{path} already holds a run; go on with --resume, choose another --out, or replace it with --force"
        )
    if found:
        raise RunFolderError(
            f"a run needs a new or an empty folder, found '{found[0][:80]}' in {path}; choose another --out, or "
            "write the run beside it with --force, which replaces files of the same names"
        )


def is_marked(run: RunFolder) -> bool:
    """Return whether there is a ``run.json`` that GDPNet wrote."""
    if not run.about.exists():
        return False
    try:
        _read_about(run)
    except RunFolderError:
        return False
    return True


def create_run(
    path: str | Path,
    config: Config,
    graph_name: str,
    graph: Graph,
    seed: int,
    split: str = "paper",
    source: Mapping[str, Any] | None = None,
    *,
    force: bool = False,
) -> RunFolder:
    """Start a run in a new or an empty folder; ``source`` says how the graph's files were read.

    With ``force`` a run that is there is replaced; other files stay, unless they have the name of a run's file.
    """
    run, path = RunFolder(path), Path(path)
    check_free(path, force=force)
    about = {
        "format": FORMAT,
        "graph": graph_name,
        "seed": seed,
        "split": split,
        "draws_split": True,  # if the files have none; versions before did not
        "source": dict(source or {}),
        "version": __version__,
        "fingerprint": fingerprint(graph),
        "config": config.to_dict(),  # if the process ends before config.toml is written
    }
    if path.is_dir():
        delete_run(run, is_known=is_marked(run) or run.is_demo)
    write_json(run.about, about)  # first: it marks the folder as ours
    write_text(run.config, config.to_toml())
    return run


def open_run(path: str | Path) -> tuple[RunFolder, Config, dict[str, Any]]:
    """Open the folder of a run; return it, its settings and its description."""
    run, path = RunFolder(path), Path(path)
    if not path.is_dir():
        raise RunFolderError(f"there is no run folder {path}")
    if not run.about.is_file():
        raise RunFolderError(f"{path} holds no run: it has no {run.about.name}")
    about = _read_about(run)
    if run.config.is_file():
        return run, read_config(run.config), about
    if "config" not in about:
        raise RunFolderError(f"{path} holds no run: it has no {run.config.name}")
    return run, Config().with_values(about["config"]), about


def _read_about(run: RunFolder) -> dict[str, Any]:
    """Read and check the description of a run."""
    about: dict[str, Any] = read_json(run.about, error=RunFolderError)
    if about.get("format", FORMAT) != FORMAT:
        raise RunFolderError(f"{run.about} must describe a run of GDPNet, found something else")
    for name in _REQUIRED:
        if name not in about:
            raise RunFolderError(f"{run.about} must describe a run of GDPNet, found no '{name}' in it")
    _check_types(about, _TYPES, run.about)
    if not 0 <= about["seed"] <= MOST_SEED:
        raise RunFolderError(
            f"'seed' in {run.about} must lie between 0 and {MOST_SEED:,}, found another number"
        )
    if source := about.get("source"):
        _check_source(source, run.about)
    return about


def _check_source(source: dict[str, Any], path: Path) -> None:
    for name in ("data_dir", "columns", "directed"):
        if name not in source:
            raise RunFolderError(
                f"'source' in {path} must say how the graph was read, found no '{name}' in it"
            )
    _check_types(source, _SOURCE, path)
    defaults = vars(Columns())
    for role, name in source["columns"].items():
        usual = defaults.get(role)
        texts = isinstance(name, list) and all(isinstance(one, str) for one in name)
        if name is None and role == "features":  # version 0.1 wrote it, where all columns were features
            continue
        fits = isinstance(name, bool) if isinstance(usual, bool) else isinstance(name, str) or texts
        if role not in defaults or not fits or (isinstance(usual, str) and texts):
            raise RunFolderError(
                f"'columns' in {path} must be names of columns by role, found '{role}'"[:280]
            )


def _check_types(values: dict[str, Any], types: dict[str, tuple[type, ...]], path: Path) -> None:
    for name, kinds in types.items():
        value = values.get(name)
        wrong = isinstance(value, bool) and bool not in kinds  # which Python takes for a whole number
        if name in values and (wrong or not isinstance(value, kinds)):
            wanted = " or ".join("null" if kind is type(None) else kind.__name__ for kind in kinds)
            raise RunFolderError(f"'{name}' in {path} must be {wanted}, found {type(value).__name__}")


def extend_run(run: RunFolder, config: Config, about: Mapping[str, Any]) -> None:
    """Let a run go on with settings that ask for more epochs; it is unfinished again."""
    run.metrics.unlink(missing_ok=True)
    write_text(run.config, config.to_toml())
    describe_settings(run, config, about)


def describe_settings(run: RunFolder, config: Config, about: Mapping[str, Any]) -> None:
    """Write the settings of a run to its description."""
    write_json(run.about, {**about, "config": config.to_dict()})


def has_settings(about: Mapping[str, Any], config: Config) -> bool:
    """Return whether the description of a run has its settings; a process may have ended before it wrote them."""
    try:
        return "config" not in about or Config().with_values(about["config"]) == config
    except GDPNetError:
        return False


def is_same_graph(about: Mapping[str, Any], graph: Graph) -> bool:
    """Return whether a run was trained on a graph."""
    return bool(about.get("fingerprint") == fingerprint(graph))


def check_same_graph(about: dict[str, Any], graph: Graph) -> None:
    """Refuse to resume a run on another graph."""
    if not is_same_graph(about, graph):
        raise RunFolderError(
            f"the run was trained on another graph than this one (it was '{about.get('graph')}')"
        )


def read_metrics(run: RunFolder) -> dict[str, Any]:
    """Return the scores of a run; none if it is not finished."""
    if not run.metrics.is_file():
        return {}
    metrics: dict[str, Any] = read_json(run.metrics, error=RunFolderError)
    return metrics
