"""How tables are read: names of their columns, given, usual or others that are clear, and what else a user says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from gdpnet.config import TASKS
from gdpnet.data.array_checks import check_switches
from gdpnet.errors import GraphError, nearest


@dataclass(frozen=True)
class Columns:
    """Names of the table columns; ``label``, ``split`` and ``weight`` may be absent if they have their default names.

    ``features`` and ``drop`` are names or patterns (``w*``) of the feature columns to use and to leave out; by
    default all remaining columns are used. Those in ``text`` are read as words, those in ``category`` as categories.
    Remaining columns of the edge table are edge features, unless ``edge_features`` is false or
    ``dropped_edge_columns`` names them.
    """

    source: str = "source"
    target: str = "target"
    weight: str = "weight"
    node: str = "id"
    label: str = "label"
    split: str = "split"
    features: tuple[str, ...] | None = None
    drop: tuple[str, ...] = ()
    text: tuple[str, ...] = ()
    category: tuple[str, ...] = ()
    edge_features: bool = True
    dropped_edge_columns: tuple[str, ...] = ()
    or_usual: bool = False
    """Whether a column that a table lacks may have its usual name; names that come from a run are meant so."""

    @classmethod
    def of(cls, given: Any) -> Columns:
        """Return columns, from a dictionary of names too."""
        if isinstance(given, Columns):
            return given
        if not isinstance(given, Mapping):
            raise GraphError(
                f"columns must be Columns, or a dictionary from role to name, found {type(given).__name__}"
            )
        roles = {item.name: item.default for item in fields(cls) if item.name != "or_usual"}  # of runs alone
        for role in given:
            if role not in roles:
                raise GraphError(f"there is no column role '{role}'{nearest(str(role), roles)}")
        return cls(**{role: _checked_role(role, value, roles[role]) for role, value in given.items()})


def _checked_role(role: str, value: Any, default: Any) -> Any:
    """Return what a user gives for a role, several names as a tuple; refuse what is no name."""
    if isinstance(default, bool):
        fits, rule = isinstance(value, bool), "true or false"
    elif isinstance(default, str):
        fits, rule = isinstance(value, str), "the name of a column"
    elif value is None and default is None:
        return None
    else:
        several = isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping)
        value = tuple(value) if several else (value,)
        fits, rule = all(isinstance(name, str) for name in value), "names of columns"
    if not fits:
        found = value[0] if isinstance(value, tuple) and len(value) == 1 else value
        raise GraphError(f"the column role '{role}' must be {rule}, found {found!r}")
    return value


USUAL_COLUMNS = Columns()
"""The default names."""


@dataclass(frozen=True)
class Reading:
    """How tables are read; see :func:`read_graph`."""

    columns: Columns
    directed: bool
    weights: bool = True
    drop_unknown: bool = False
    task: str | None = None

    def __post_init__(self) -> None:
        """Refuse a task that there is none of, and switches that are neither true nor false."""
        check_switches(directed=self.directed, weights=self.weights, drop_unknown=self.drop_unknown)
        if self.task is None:
            return
        if not isinstance(self.task, str):
            raise GraphError(f"the task must be given by its name, found {type(self.task).__name__}")
        if self.task not in TASKS:
            raise GraphError(f"there is no task '{self.task}'{nearest(self.task, TASKS)}")


_ENDS = (
    ("source", "target"),
    ("src", "dst"),
    ("from", "to"),
    ("u", "v"),
    ("head", "tail"),
    ("source_id", "target_id"),
    ("src_id", "dst_id"),
    ("from_id", "to_id"),
    ("source_node", "target_node"),
    ("from_node", "to_node"),
    ("node1", "node2"),
    ("node_1", "node_2"),
)
"""Other names of the two ends of an edge."""

_IDS = (("id",), ("node", "node_id", "nodeid"), ("name",))
"""Other names of the id of a node, the clearest first."""

_LABELS = (("label",), ("class",), ("target",), ("y",))
_SPLITS = (("split",),)
_WEIGHTS = (("weight",),)


def find_edge_columns(columns: Columns, names: Sequence[str], where: str) -> tuple[Columns, tuple[str, ...]]:
    """Return the columns with the names that an edge table has for the ends and the weight, and notes on them."""
    notes: list[str] = []
    columns = _softened(columns, names, ("source", "target", "weight"))
    given = columns.source, columns.target
    if given == (USUAL_COLUMNS.source, USUAL_COLUMNS.target) and not set(given) & set(names):
        spelled = _by_meaning(names)
        found = [pair for pair in _ENDS if all(end in spelled for end in pair)]
        if len(found) > 1:
            pairs = " and ".join("/".join(pair) for pair in found[:2])
            raise GraphError(
                f"{where} must have columns 'source' and 'target', found {pairs}; choose with --column source=NAME "
                "--column target=NAME"
            )
        if found:
            source, target = (_single(spelled[end], where) for end in found[0])
            columns = replace(columns, source=source, target=target)
            notes.append(
                f"columns '{source}' and '{target}' of {where} are read as source and target of edges"
            )
    if columns.source == columns.target:
        raise GraphError(
            f"source and target must be two columns of {where}, found '{columns.source}' for both: choose with "
            "--column source=NAME --column target=NAME"
        )
    weight = _find(columns, "weight", names, _WEIGHTS, where)
    columns, more = _renamed(columns, weight=weight, where=where)
    return columns, (*notes, *more)


def find_node_columns(columns: Columns, names: Sequence[str], where: str) -> tuple[Columns, tuple[str, ...]]:
    """Return the columns with the names that a node table has for id, label and split, and notes on them.

    A column ``y`` beside a column ``x`` is a coordinate, and not taken for the label.
    """
    columns = _softened(columns, names, ("node", "label", "split"))
    taken = {columns.split, *(columns.features or ())}
    free = [name for name in names if name not in taken]
    node = _find(columns, "node", free, _IDS, where)
    labels = _LABELS[:-1] if "x" in _by_meaning(names) else _LABELS
    label = _find(columns, "label", [name for name in free if name != node], labels, where)
    split = _find(columns, "split", names, _SPLITS, where)
    return _renamed(columns, node=node, label=label, split=split, where=where)


def _softened(columns: Columns, names: Sequence[str], roles: Iterable[str]) -> Columns:
    """Return the columns with the usual names of those that a table lacks, if they may have these."""
    if not columns.or_usual:
        return columns
    usual = {role: getattr(USUAL_COLUMNS, role) for role in roles if getattr(columns, role) not in names}
    return replace(columns, **usual)


def find_column(name: str, names: Sequence[str], others: Iterable[str] = ()) -> str:
    """Return how a table spells a column: as given, else in another case, else by the only other name it has."""
    if name in names:
        return name
    spelled = _by_meaning(names)
    found = [column for other in (name, *others) for column in spelled.get(other, ())]
    return found[0] if len(found) == 1 else name


def _find(
    columns: Columns, role: str, names: Sequence[str], tiers: tuple[tuple[str, ...], ...], where: str
) -> str:
    """Return the name of a role in a table: the given one if it is there or was chosen, else a common one."""
    given, usual = getattr(columns, role), getattr(USUAL_COLUMNS, role)
    if given != usual or given in names:
        return str(given)
    spelled = _by_meaning(names)
    for tier in tiers:
        found = [column for name in tier for column in spelled.get(name, ())]
        if found:
            return _single(found, where, role)
    return str(given)


def _single(found: Sequence[str], where: str, role: str = "source and target") -> str:
    if len(found) > 1:
        raise GraphError(
            f"{where} must have one column for the {role}, found '{found[0]}' and '{found[1]}'; choose with --column"
        )
    return found[0]


def _renamed(columns: Columns, *, where: str, **found: str) -> tuple[Columns, tuple[str, ...]]:
    changed: dict[str, Any] = {role: name for role, name in found.items() if name != getattr(columns, role)}
    notes = tuple(
        f"column '{name}' of {where} is read as the {'id' if role == 'node' else role}; --column {role}=NAME "
        "chooses another"
        for role, name in changed.items()
    )
    return replace(columns, **changed), notes


def _by_meaning(names: Sequence[str]) -> dict[str, list[str]]:
    """Return columns by their name in lower case, with underscores for spaces and hyphens."""
    spelled: dict[str, list[str]] = {}
    for name in names:
        spelled.setdefault(name.lower().replace(" ", "_").replace("-", "_"), []).append(name)
    return spelled
