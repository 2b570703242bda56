"""What a user should know about labels before training: counts per class, likely typos, tiny classes, quantities."""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from gdpnet.data.graph import Graph
from gdpnet.data.validation import SPLITS, UNKNOWN
from gdpnet.errors import GraphError

_TINY = 5
_TIMES_LARGER = 10
_ALIKE = 0.75
_MANY_CLASSES = 50
_COMPARED, _MOST_PAIRS = 100, 250_000
"""Characters of a name that are compared, and pairs of classes up to which they are."""


def class_counts(graph: Graph) -> list[tuple[Any, ...]]:
    """Return one row per class: its name, and its number of training, validation, test and other nodes."""
    known = graph.labels != UNKNOWN
    table = torch.zeros(len(SPLITS) * max(1, graph.num_classes), dtype=torch.long)
    place = graph.split[known].long() * max(1, graph.num_classes) + graph.labels[known]
    counts = table.index_add_(0, place, torch.ones_like(place)).view(len(SPLITS), -1)
    return [
        (name, *(int(counts[code, number]) for code in (1, 2, 3, 0)))
        for number, name in enumerate(graph.class_names)
    ]


def label_warnings(graph: Graph) -> list[str]:
    """Return a sentence for each thing that is likely wrong with the labels."""
    known = graph.labels[graph.labels != UNKNOWN]
    if known.numel() == 0:
        return []
    counts = torch.bincount(known, minlength=graph.num_classes).tolist()
    typos = likely_typos(graph.class_names, counts)
    said = [f"the class '{name}' may be '{other}' in another spelling" for name, other in typos]
    tiny = [name for name, count in zip(graph.class_names, counts, strict=True) if 0 < count < _TINY]
    if tiny:
        said.append(
            f"fewer than {_TINY} nodes have the class {_listed(tiny)}: it can hardly be learned or scored"
        )
    rows = class_counts(graph)
    unsure = [name for name, _, _, test, _ in rows if 0 < test < _TINY and name not in tiny]
    if unsure:
        said.append(f"fewer than {_TINY} test nodes have the class {_listed(unsure)}: its scores say little")
    if looks_like_quantity(graph):
        said.append(
            f"labels are {len(graph.class_names):,} different numbers, which looks like a quantity: "
            "--task regression predicts quantities"
        )
    return said


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return ", ".join(f"'{name}'" for name in names[:5]) + more


def check_classes(graph: Graph) -> None:
    """Refuse class names that are fractions, or many whole numbers of which most occur once."""
    if found := quantity_found(graph):
        raise GraphError(
            f"{found}: use --task regression (GDPNet(task='regression') in Python) to predict numbers, or give "
            "classes names"
        )


def quantity_found(graph: Graph) -> str:
    """Return what says that labels are no classes but numbers; nothing if they may be classes."""
    if graph.targets is not None:
        return "the graph has numbers to predict"
    numbers = class_numbers(graph)
    if numbers is None:
        return ""
    if (numbers != np.round(numbers)).any():
        fraction = graph.class_names[int((numbers != np.round(numbers)).argmax())]
        return f"labels are fractions such as {fraction}"
    if len(numbers) > _MANY_CLASSES and len(numbers) > int(graph.labelled.sum()) / 2:
        return f"labels are {len(numbers):,} different numbers, of which most occur once"
    return ""


def class_numbers(graph: Graph) -> np.ndarray | None:
    """Return the names of the classes as numbers, None if there is no class or one that is no finite number."""
    try:
        numbers = np.array([float(name) for name in graph.class_names], dtype=np.float64)
    except ValueError:
        return None
    return numbers if numbers.size and np.isfinite(numbers).all() else None


def as_targets(graph: Graph) -> Graph:
    """Return the graph with numbers to predict in place of classes whose names are numbers."""
    if graph.targets is not None or not graph.num_classes:
        return graph
    numbers = class_numbers(graph)
    if numbers is None:
        raise GraphError(
            f"the task regression needs numbers as labels, found classes such as '{graph.class_names[-1]}'"
        )
    targets = torch.from_numpy(np.append(numbers, np.nan)).float()[graph.labels]
    return replace(graph, labels=torch.full_like(graph.labels, UNKNOWN), class_names=(), targets=targets)


def likely_typos(names: Sequence[str], counts: Sequence[int]) -> list[tuple[str, str]]:
    """Return pairs of a rare class and a class at least ten times as frequent with nearly the same name."""
    pairs = []
    plain = [_plain(name[:_COMPARED]) for name in names]
    frequent = [place for place, count in enumerate(counts) if count >= _TIMES_LARGER]
    if len(names) * len(frequent) > _MOST_PAIRS:
        return []  # a class per few nodes: comparing all would take minutes
    for place, count in enumerate(counts):
        if count == 0 or plain[place].isdigit():
            continue
        for other in frequent:
            same = plain[place] == plain[other]
            if other != place and (
                same or (counts[other] >= _TIMES_LARGER * count and _alike(plain, place, other))
            ):
                if same and counts[other] < count:
                    continue
                pairs.append((names[place], names[other]))
                break
    return pairs


def _alike(plain: list[str], place: int, other: int) -> bool:
    pair = plain[place], plain[other]
    if any(
        any(letter.isdigit() for letter in name) for name in pair
    ):  # 'level 1' and 'level 2' are two classes
        return False
    return difflib.SequenceMatcher(None, *pair).ratio() >= _ALIKE


def _plain(name: str) -> str:
    """Return a name without case, accents, spaces and punctuation."""
    letters = unicodedata.normalize("NFKD", name).casefold()
    return "".join(letter for letter in letters if letter.isalnum())


def looks_like_quantity(graph: Graph) -> bool:
    """Return whether classes are many different numbers, hardly any of them twice."""
    if graph.num_classes <= _MANY_CLASSES:
        return False
    try:
        numbers = np.array([float(name) for name in graph.class_names], dtype=np.float64)
    except ValueError:
        return False
    labelled = int((graph.labels != UNKNOWN).sum())
    fractions = bool((numbers != np.round(numbers)).any())
    return labelled > 0 and (fractions or graph.num_classes > labelled / 4)
