"""Turn the columns of a node table into features: fitted on training nodes, applied by name."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp
from jaxtyping import Bool, Float, Int

from gdpnet._core.json_file import entries, entry
from gdpnet.config import FeaturesSettings
from gdpnet.data.tables.columns import (
    ALL_LOST,
    BOOLEAN,
    CATEGORY,
    DATE,
    LEFT_OUT,
    NUMERIC,
    TEXT,
    Column,
    expand_vectors,
    find_kind,
    is_number,
    read_as,
)
from gdpnet.errors import GraphError, nearest

DEFAULTS = FeaturesSettings()
"""The settings of an encoding that is fitted before a model asks for others."""

_BOUND_BEFORE = 3.0
"""The bound of scaled numbers in files that do not name it."""

_WIDEST_DENSE = 1024


@dataclass(frozen=True)
class ColumnEncoding:
    """How one column becomes features, as found on training nodes."""

    name: str
    kind: str
    fill: float = 0.0
    """What stands for a missing number: the median."""
    centre: float = 0.0
    scale: float = 1.0
    """A number x becomes z = (x - centre) / scale, and z / sqrt(1 + (z / bound)^2) if the table is scaled."""
    has_missing: bool = False
    """Whether a further feature says that the value is missing."""
    words: tuple[str, ...] = ()
    """Categories, the most frequent first, or the words of a text column."""
    other: bool = False
    """Whether a further feature stands for all other categories."""
    weights: tuple[float, ...] = ()
    """The inverse document frequency of each word."""
    remark: str = ""

    def feature_names(self) -> list[str]:
        """Return the names of the features that the column becomes."""
        if self.kind == LEFT_OUT:
            return []
        if self.kind == TEXT:
            return [f"{self.name}:{word}" for word in self.words]
        names = [f"{self.name}={word}" for word in self.words] if self.kind == CATEGORY else [self.name]
        names += [f"{self.name}=other"] if self.other else []
        return names + ([f"{self.name} is missing"] if self.has_missing else [])


@dataclass(frozen=True)
class Encoding:
    """How a node table becomes features."""

    columns: tuple[ColumnEncoding, ...]
    scaled: bool
    """Whether numbers are centred and scaled by column; word counts and columns of like scale are not."""
    bound: float = DEFAULTS.bound
    """The bound of scaled numbers, saved with the model."""

    @classmethod
    def fit(
        cls,
        table: Any,
        rows: Bool[np.ndarray, "nodes"],
        given: Mapping[str, str] | None = None,
        settings: FeaturesSettings = DEFAULTS,
    ) -> Encoding:
        """Find the kind of every column that is not given, and fit its encoding on some rows, the training nodes."""
        table, given = expand_vectors(table), given or {}
        read = []
        for name, values in zip(table.column_names, table.columns, strict=True):
            kind = given.get(name)
            read.append(Column(name, kind, read_as(kind, values)) if kind else find_kind(name, values))
        chosen = pa.array(rows)
        fitted = [
            column if column.values is None else replace(column, values=column.values.filter(chosen))
            for column in read
        ]
        scaled = _is_mixed(read, fitted) or need_scaling(_numbers(fitted), settings)
        if not (scaled or given) and all(_is_complete(values) for values in table.columns):
            return cls.unchanged(table.column_names)  # constant ones too: all columns are alike
        columns = (_fit_column(*pair, scaled, settings) for pair in zip(read, fitted, strict=True))
        return cls(tuple(columns), scaled, settings.bound)

    @classmethod
    def unchanged(cls, names: Iterable[str]) -> Encoding:
        """Return the encoding of columns that are features already."""
        return cls(tuple(ColumnEncoding(name, NUMERIC) for name in names), scaled=False)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Return the names of all features, in order."""
        return tuple(name for column in self.columns for name in column.feature_names())

    @property
    def used(self) -> tuple[ColumnEncoding, ...]:
        """Return the columns that become features."""
        return tuple(column for column in self.columns if column.kind != LEFT_OUT)

    @property
    def is_one_to_one(self) -> bool:
        """Return whether every column is a number that becomes one feature, as the columns of an array do."""
        return all(one.kind in (NUMERIC, BOOLEAN) and not one.has_missing for one in self.columns)

    def transform(
        self, table: Any, where: str = "the node table"
    ) -> Float[np.ndarray, "n w"] | sp.csr_matrix:
        """Return the features of a table, whose columns are found by name; other columns are not used."""
        table = expand_vectors(table)
        known = set(table.column_names)
        for column in self.used:
            if column.name not in known:
                hint = nearest(column.name, table.column_names)
                raise GraphError(f"{where} must have the column '{column.name}' of the training table{hint}")
        raw = dict(zip(table.column_names, table.columns, strict=True))
        blocks = [_transform_column(column, raw[column.name], self, where) for column in self.used]
        width = sum(block.shape[1] for block in blocks)
        is_sparse = width > _WIDEST_DENSE and any(column.kind in (TEXT, CATEGORY) for column in self.used)
        return _side_by_side(blocks, (table.num_rows, width), is_sparse)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for a model file."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Encoding:
        """Read what `to_dict` returned, perhaps from a file of others."""
        given, where = dict(values), "the encoding of columns"
        columns = [_column_of(one) for one in entries(given, "columns", dict, where, GraphError)]
        bound = entry(given, "bound", float, where, GraphError, default=_BOUND_BEFORE)
        if not bound > 0:
            raise GraphError(f"'bound' of {where} must be above zero, found {bound}")
        return cls(tuple(columns), entry(given, "scaled", bool, where, GraphError), float(bound))

    def summary(self) -> list[tuple[str, str, str]]:
        """Return one row per kind of column: the kind, the columns, and what becomes of them."""
        treated = {
            NUMERIC: "scaled by column" if self.scaled else "left as they are",
            BOOLEAN: "0 or 1",
            CATEGORY: "one-hot",
            DATE: "as days, scaled",
            TEXT: "words, tf-idf",
        }
        rows = []
        for kind, treatment in treated.items():
            columns = [column for column in self.columns if column.kind == kind]
            missing = sum(column.has_missing for column in columns)
            filled = f"; {missing} with missing values, filled and marked" if missing else ""
            if columns:
                rows.append((kind, _few([column.name for column in columns]), treatment + filled))
        return rows + [(column.kind, column.name, column.remark) for column in self.columns if column.remark]


def _column_of(value: dict[str, Any]) -> ColumnEncoding:
    """Read the encoding of one column; what it says is checked."""
    where = "a column in the encoding"
    found = {item.name: value[item.name] for item in fields(ColumnEncoding) if item.name in value}
    if len(found) < len(value):
        raise GraphError(
            f"{where} has an entry that there is none of: {', '.join(sorted(set(value) - set(found)))}"
        )
    for name, kind in (("name", str), ("kind", str), ("remark", str)):
        entry(found, name, kind, where, GraphError, default="")
    for name in ("fill", "centre", "scale"):
        if not math.isfinite(entry(found, name, float, where, GraphError, default=1.0)):
            raise GraphError(f"'{name}' of {where} must be finite, found {found[name]}")
    for name in ("has_missing", "other"):
        entry(found, name, bool, where, GraphError, default=False)
    lists = {
        name: tuple(entries(found, name, kind, where, GraphError))
        for name, kind in (("words", str), ("weights", float))
        if name in found
    }
    column = ColumnEncoding(**{"name": "", "kind": "", **found, **lists})
    kinds = (NUMERIC, BOOLEAN, CATEGORY, DATE, TEXT, LEFT_OUT)
    if column.kind not in kinds or column.scale == 0 or len(set(column.words)) < len(column.words):
        raise GraphError(f"{where} must have a known kind, a scale that is not zero and words that differ")
    if column.kind == TEXT and len(column.weights) != len(column.words):
        raise GraphError(f"{where} must have a weight per word, found {len(column.weights)}")
    return column


def _is_complete(values: Any) -> bool:
    """Return whether a column holds a number in every row."""
    return is_number(values.type) and not read_as(NUMERIC, values).null_count


def _few(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= 5 else f"{names[0]} to {names[-1]} ({len(names):,})"


def _is_mixed(read: list[Column], fitted: list[Column]) -> bool:
    """Return whether a table has columns of several kinds, or numbers that are missing."""
    used = [column for column in fitted if column.kind != LEFT_OUT]
    if any(column.kind not in (NUMERIC, BOOLEAN, TEXT) for column in used):
        return True
    return any(column.values.null_count for column in read if column.kind == NUMERIC)


def _numbers(fitted: list[Column]) -> list[Float[np.ndarray, "rows"]]:
    return [np.asarray(one.values) for one in fitted if one.kind == NUMERIC and len(one.values)]


def need_scaling(columns: list[Float[np.ndarray, "rows"]], settings: FeaturesSettings = DEFAULTS) -> bool:
    """Return whether columns of numbers must be scaled by column.

    They are left as they are if they are counts (at least zero, and mostly zero), or have like spread and are near
    zero, as embeddings are.
    """
    if not columns:
        return False
    zeros = sum(int((value == 0).sum()) for value in columns)
    if zeros > sum(value.size for value in columns) / 2 and all(value.min() >= 0 for value in columns):
        return False
    spread = np.array([value.std() for value in columns])
    away = np.array([abs(value.mean()) for value in columns])
    alive = spread > 0
    if not alive.any():
        return False
    return bool(
        spread[alive].max() > settings.unlike_spread * spread[alive].min()
        or (away[alive] > settings.off_centre * spread[alive]).any()
    )


def _fit_column(read: Column, fitted: Column, scaled: bool, settings: FeaturesSettings) -> ColumnEncoding:
    if read.kind == LEFT_OUT:
        return ColumnEncoding(read.name, LEFT_OUT, remark=read.remark)
    has_missing = read.kind != TEXT and read.values.null_count > 0
    values = fitted.values.drop_null()
    if len(values) == 0:
        lost = f"{ALL_LOST} among the training nodes: {read.remark}"
        return ColumnEncoding(
            read.name, LEFT_OUT, remark=lost if read.remark else "no value among the training nodes"
        )
    if read.kind == TEXT:
        return _fit_words(read.name, values, settings.max_words)
    if read.kind == CATEGORY:
        counts = pc.value_counts(values).to_pylist()
        ranked = sorted(counts, key=lambda one: (-one["counts"], one["values"]))
        words = tuple(one["values"] for one in ranked[: settings.max_categories])
        known = len(pc.unique(read.values.drop_null()))
        remark = f"{len(words)} of {known} categories, the others together" if known > len(words) else ""
        return ColumnEncoding(
            read.name, CATEGORY, words=words, other=known > len(words), has_missing=has_missing, remark=remark
        )
    number = np.asarray(values, dtype=np.float64)
    centre, scale = 0.0, 1.0
    if read.kind != BOOLEAN and (scaled or read.kind == DATE):
        centre, scale = middle_and_spread(number)
    return ColumnEncoding(
        read.name,
        read.kind,
        fill=float(np.median(number)),
        centre=centre,
        scale=scale,
        has_missing=has_missing,
        remark=read.remark,
    )


def middle_and_spread(number: Float[np.ndarray, "n"]) -> tuple[float, float]:
    """Return the median, and the width of the inner half as a standard deviation, or that if it is near zero."""
    low, middle, high = np.quantile(number, [0.25, 0.5, 0.75])
    inner, deviation = (high - low) / 1.349, float(number.std())
    spread = inner if inner > 1e-6 * deviation else deviation
    return float(middle), float(spread) if spread > np.finfo(np.float32).tiny else 1.0


def squashed(number: Float[np.ndarray, "n"], bound: float) -> Float[np.ndarray, "n"]:
    """Return z / sqrt(1 + (z / bound)^2), which bounds outliers."""
    return number / np.sqrt(1.0 + np.square(number / bound))


def _fit_words(name: str, values: Any, most: int) -> ColumnEncoding:
    from sklearn.feature_extraction.text import TfidfVectorizer

    try:
        fitted = TfidfVectorizer(max_features=most, stop_words="english", sublinear_tf=True).fit(
            values.to_pylist()
        )
    except ValueError:  # no word is left
        return ColumnEncoding(name, LEFT_OUT, remark="no words")
    words = tuple(str(word) for word in fitted.get_feature_names_out())
    return ColumnEncoding(name, TEXT, words=words, weights=tuple(float(value) for value in fitted.idf_))


def _transform_column(column: ColumnEncoding, raw: Any, whole: Encoding, where: str) -> Any:
    values = read_as(column.kind, raw)
    present = len(raw) - raw.null_count
    if present and len(values) - values.null_count == 0 and column.kind not in (TEXT, CATEGORY):
        found = raw.drop_null()[0].as_py()
        raise GraphError(
            f"column '{column.name}' of {where} must be {column.kind} as in training, found '{found}'"
        )
    if column.kind == TEXT:
        return _tf_idf(column, values)
    if column.kind == CATEGORY:
        return _one_hot(column, values)
    number = values.to_numpy(zero_copy_only=False)
    missing = np.isnan(number)
    filled = (np.where(missing, column.fill, number) - column.centre) / column.scale
    if column.kind != BOOLEAN and (whole.scaled or column.kind == DATE):
        filled = squashed(filled, whole.bound)
    return np.stack([filled, missing] if column.has_missing else [filled], axis=1).astype(np.float32)


class _Ones(NamedTuple):
    """A block of zeros and ones: where the ones are."""

    row: Int[np.ndarray, "ones"]
    place: Int[np.ndarray, "ones"]
    shape: tuple[int, int]


def _side_by_side(blocks: list[Any], shape: tuple[int, int], is_sparse: bool) -> Any:
    """Return the blocks of features as one matrix, made at once: a matrix per column takes a while."""
    dense = np.zeros((shape[0], 0 if is_sparse else shape[1]), dtype=np.float32)
    places: list[tuple[np.ndarray, ...]] = [
        (np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.float32))
    ]
    first = 0
    for block in blocks:
        last = first + block.shape[1]
        if isinstance(block, _Ones):
            row, place, value = block.row, block.place, np.ones(block.row.size, dtype=np.float32)
        elif is_sparse or sp.issparse(block):
            found = sp.coo_matrix(block)
            row, place, value = found.row, found.col, found.data
        else:
            dense[:, first:last] = block
            first = last
            continue
        if is_sparse:
            places.append((row, place + first, value))
        else:
            dense[row, place + first] = value
        first = last
    if not is_sparse:
        return dense
    row, column, value = (np.concatenate(parts) for parts in zip(*places, strict=True))
    return sp.csr_matrix((value, (row, column)), shape=shape, dtype=np.float32)


def _one_hot(column: ColumnEncoding, values: Any) -> _Ones:
    """Return a column per category, one for the others and one for missing values, as far as there were any."""
    width, known = len(column.words), pc.index_in(values, value_set=pa.array(column.words, pa.string()))
    place = np.array(pc.fill_null(known, -1), dtype=np.int64)
    missing = np.array(pc.is_null(values))
    if column.other:
        place[(place < 0) & ~missing] = width
    if column.has_missing:
        place[missing] = width + column.other
    row = np.flatnonzero(place >= 0)
    return _Ones(row, place[row], (len(values), width + column.other + column.has_missing))


def _tf_idf(column: ColumnEncoding, values: Any) -> sp.csr_matrix:
    from sklearn.feature_extraction.text import TfidfVectorizer

    reader = TfidfVectorizer(vocabulary=list(column.words), sublinear_tf=True, stop_words="english")
    reader.idf_ = np.array(column.weights)
    return reader.transform(pc.fill_null(values, "").to_pylist()).astype(np.float32)
