"""A node table becomes features: fitted on training rows, applied by column name, saved as plain values."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from gdpnet.config import FeaturesSettings
from gdpnet.data.tables.encoding import Encoding
from gdpnet.errors import GraphError

TABLE = pa.table(
    {
        "age": [20.0, 30.0, 40.0, 50.0],
        "income": [1e4, None, 3e4, 9e5],
        "town": ["Rome", "Oslo", None, "Rome"],
        "member": [True, False, True, True],
    }
)
ALL = np.ones(4, dtype=bool)


def test_columns_of_unlike_scale_are_centred_scaled_and_bounded() -> None:
    encoding = Encoding.fit(TABLE, ALL)
    features = dict(zip(encoding.feature_names, encoding.transform(TABLE).T, strict=True))
    assert encoding.scaled
    assert features["age"].mean() == pytest.approx(0.0, abs=1e-6)
    assert abs(features["income"]).max() < 3.0
    assert features["member"].tolist() == [1.0, 0.0, 1.0, 1.0]


def test_missing_values_get_the_median_and_a_feature_that_marks_them() -> None:
    encoding = Encoding.fit(TABLE, ALL)
    features = dict(zip(encoding.feature_names, encoding.transform(TABLE).T, strict=True))
    assert features["income is missing"].tolist() == [0.0, 1.0, 0.0, 0.0]
    assert features["income"][1] == features["income"][2]  # 30,000 is the median
    assert features["town is missing"].tolist() == [0.0, 0.0, 1.0, 0.0]
    assert features["town=Rome"].tolist() == [1.0, 0.0, 0.0, 1.0]


def test_only_training_rows_decide_on_the_scale() -> None:
    rows = np.array([True, True, True, False])
    changed = TABLE.set_column(0, "age", pa.array([20.0, 30.0, 40.0, 9e9]))
    assert Encoding.fit(TABLE, rows).columns[0] == Encoding.fit(changed, rows).columns[0]


@pytest.mark.parametrize(
    "values",
    [
        {"w0": [0, 3, 0, 0, 1], "w1": [0, 0, 0, 2, 0]},  # word counts
        {"e0": [0.1, -0.2, 0.3, 0.0, 0.1], "e1": [-0.4, 0.5, 0.1, -0.1, 0.2]},  # an embedding
    ],
)
def test_counts_and_columns_of_like_scale_are_left_as_they_are(values: dict[str, list[float]]) -> None:
    encoding = Encoding.fit(pa.table(values), np.ones(5, dtype=bool))
    assert not encoding.scaled
    assert encoding.transform(pa.table(values)) == pytest.approx(np.array(list(values.values())).T)


def test_columns_of_another_table_are_found_by_name() -> None:
    encoding = Encoding.fit(TABLE, ALL)
    other = TABLE.select(["member", "town", "age", "income"]).append_column("new", pa.array([1, 2, 3, 4]))
    assert encoding.transform(other) == pytest.approx(encoding.transform(TABLE))


def test_a_category_that_training_did_not_have_is_no_category() -> None:
    encoding = Encoding.fit(TABLE, ALL)
    other = TABLE.set_column(2, "town", pa.array(["Rome", "Bonn", "Oslo", None]))
    features = dict(zip(encoding.feature_names, encoding.transform(other).T, strict=True))
    assert features["town=Rome"].tolist() == [1.0, 0.0, 0.0, 0.0]
    assert features["town is missing"].tolist() == [0.0, 0.0, 0.0, 1.0]


def test_rare_categories_share_a_feature() -> None:
    towns = [f"town {number % 40}" for number in range(400)]
    encoding = Encoding.fit(pa.table({"town": towns}), np.ones(400, dtype=bool))
    features = encoding.transform(pa.table({"town": towns}))
    assert features.shape == (400, 30 + 1)
    assert features.sum(axis=1).tolist() == [1.0] * 400


def test_a_missing_column_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(GraphError, match=r"must have the column 'age' of the training table.*'ages'"):
        Encoding.fit(TABLE, ALL).transform(TABLE.rename_columns(["ages", "income", "town", "member"]))


def test_a_column_of_another_kind_is_refused() -> None:
    with pytest.raises(
        GraphError, match="column 'age' of the node table must be numeric as in training, found 'x'"
    ):
        Encoding.fit(TABLE, ALL).transform(TABLE.set_column(0, "age", pa.array(["x", "y", "z", "x"])))


def test_words_of_a_text_column_become_sparse_features() -> None:
    titles = [
        f"graph networks number{place}" if place % 2 else f"protein folding number{place}"
        for place in range(60)
    ]
    table = pa.table({"title": titles, "year": list(range(1960, 2020))})
    encoding = Encoding.fit(table, np.ones(60, dtype=bool), {"title": "text"})
    features = encoding.transform(table)
    dense = features.toarray() if sp.issparse(features) else features
    assert "title:protein" in encoding.feature_names
    column = encoding.feature_names.index("title:protein")
    assert (dense[:, column] > 0).tolist() == [place % 2 == 0 for place in range(60)]


def test_an_encoding_survives_json() -> None:
    encoding = Encoding.fit(TABLE, ALL, {"town": "category"})
    again = Encoding.from_dict(json.loads(json.dumps(encoding.to_dict())))
    assert again == encoding
    assert np.array_equal(again.transform(TABLE), encoding.transform(TABLE))


def test_the_bound_of_scaled_numbers_is_the_one_that_was_saved() -> None:
    values = Encoding.fit(TABLE, ALL).to_dict()
    wide, narrow = (Encoding.from_dict(values | {"bound": bound}).transform(TABLE) for bound in (3.0, 0.5))
    assert abs(narrow[:, 0]).max() < 0.5 < abs(wide[:, 0]).max()


def test_the_summary_says_what_becomes_of_each_kind() -> None:
    table = TABLE.append_column("same", pa.array(["x"] * 4))
    assert Encoding.fit(table, ALL).summary() == [
        ("numeric", "age, income", "scaled by column; 1 with missing values, filled and marked"),
        ("boolean", "member", "0 or 1"),
        ("category", "town", "one-hot; 1 with missing values, filled and marked"),
        ("left out", "same", "the same value in every row"),
    ]


@given(
    st.lists(
        st.one_of(st.none(), st.floats(width=64), st.integers(-5, 5).map(float)), min_size=2, max_size=30
    )
)
def test_features_are_always_finite(values: list[float | None]) -> None:
    table = pa.table(
        {"x": pa.array(values, pa.float64()), "y": [float(place) for place in range(len(values))]}
    )
    features = Encoding.fit(table, np.ones(len(values), dtype=bool)).transform(table)
    assert np.isfinite(features).all()


def test_a_setting_says_how_many_categories_have_a_feature() -> None:
    table = pa.table({"town": [f"town {number % 40}" for number in range(400)]})
    encoding = Encoding.fit(table, np.ones(400, dtype=bool), settings=FeaturesSettings(max_categories=5))
    assert encoding.transform(table).shape == (400, 6)
    assert encoding.columns[0].remark == "5 of 40 categories, the others together"


def test_a_setting_says_how_many_words_have_a_feature() -> None:
    table = pa.table({"title": [f"graph protein word{number}" for number in range(30)]})
    fitted = Encoding.fit(table, np.ones(30, dtype=bool), {"title": "text"}, FeaturesSettings(max_words=2))
    assert fitted.feature_names == ("title:graph", "title:protein")


@pytest.mark.parametrize(
    ("settings", "scaled"),
    [({}, True), ({"unlike_spread": 30.0}, False), ({"unlike_spread": 30.0, "off_centre": 0.01}, True)],
)
def test_settings_say_when_columns_are_of_unlike_scale(settings, scaled) -> None:
    table = pa.table({"small": [-1.0, 1.0, 0.5, -0.5], "large": [-20.0, 20.0, 11.0, -8.0]})
    assert Encoding.fit(table, ALL, settings=FeaturesSettings(**settings)).scaled == scaled


def test_a_setting_bounds_scaled_numbers() -> None:
    table = pa.table({"small": [0.1, 0.2, 0.3, 0.2], "large": [1e3, 2e3, 3e3, 1e9]})
    found = Encoding.fit(table, ALL, settings=FeaturesSettings(bound=0.5))
    assert found.bound == 0.5
    assert abs(found.transform(table)).max() <= 0.5


def test_many_columns_of_text_are_encoded_without_a_matrix_or_dates_for_each(monkeypatch) -> None:
    table = pa.table({f"c{place}": ["a", "b", None] for place in range(600)} | {"n": [1.0, 2.0, 4.0]})
    made, matrix, strptime = [], sp.csr_matrix, pc.strptime
    monkeypatch.setattr(sp, "csr_matrix", lambda *a, **k: made.append("matrix") or matrix(*a, **k))
    monkeypatch.setattr(pc, "strptime", lambda *a, **k: made.append("date") or strptime(*a, **k))
    found = Encoding.fit(table, np.ones(3, dtype=bool)).transform(table)
    assert made == ["matrix"]
    assert found.toarray()[:, :6].tolist() == [[1, 0, 0] * 2, [0, 1, 0] * 2, [0, 0, 1] * 2]
    assert found.shape == (3, 1801)
