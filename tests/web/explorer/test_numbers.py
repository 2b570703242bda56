"""Numbers as the page shows and downloads them: small probabilities, curves with vertical steps, long names."""

import csv
import io
import itertools
import json
import math
from dataclasses import replace

import numpy as np
import pytest
from tools.chromium import chromium_path

from gdpnet._core.progress import watch
from gdpnet.benchmark.score_tables import curve_names
from gdpnet.web.explorer import payload as payloads
from gdpnet.web.explorer.columns import step_columns
from gdpnet.web.explorer.judge import _histogram, _training, thresholds_of
from gdpnet.web.explorer.packing import pack
from gdpnet.web.explorer.page import json_text
from gdpnet.web.explorer.part import part_of_all
from helpers.pages import CLASSES, unpacked
from web.explorer.reader import downloaded

in_chromium = pytest.mark.skipif(
    chromium_path() is None, reason="Chromium is not installed (apt-get install chromium)"
)
pytestmark = pytest.mark.slow


def test_around_a_tiny_threshold_there_are_others_and_bins_that_are_as_narrow(graph):
    own = 2.56e-6
    grid = thresholds_of(own)
    assert own in grid
    assert (grid < own).sum() > 3
    assert ((grid > own) & (grid < 0.01)).sum() > 3
    keep = np.geomspace(1e-7, 1e-4, graph.num_edges).astype(np.float32)
    found = _histogram(graph, keep, grid)
    counts = np.add(found["other"], found["spurious"])
    assert counts.sum() == graph.num_edges
    assert (counts > 0).sum() > 5
    assert len(found["edges"]) == found["bins"] + 1 == counts.size + 1


def test_thresholds_of_usual_size_are_hundredths_and_bins_are_even(graph):
    assert thresholds_of(0.345).size == 102
    found = _histogram(graph, np.full(graph.num_edges, 0.99, dtype=np.float32), thresholds_of(0.345))
    assert (found["bins"], "edges" in found) == (50, False)
    assert found["other"][-1] + found["spurious"][-1] == graph.num_edges


def test_decisions_of_both_nodes_are_not_rounded(predictor, payload):
    told = predictor.explain("041")
    first = unpacked(payload["steps"]["row_ptr"])[payload["nodes"]["id"].index("041")]
    for name in ("keep_by_node", "keep_by_neighbour", "draw_probability"):
        assert payload["steps"][name]["type"] == "f32"
    found = unpacked(payload["steps"]["keep_by_node"])[first : first + len(told.decisions)]
    assert found == pytest.approx([one.keep_by_node for one in told.decisions], rel=1e-6)


@pytest.mark.parametrize(
    ("metric", "name"),
    [("micro_f1", "micro-F1"), ("r2", "R2"), ("roc_auc", "ROC AUC"), ("score", "score of the task")],
)
def test_the_training_curve_is_named_by_the_metric_of_the_history(metric, name):
    found = _training(({"epoch": 1, "validation_f1": 0.5, "metric": metric},), 1)
    assert [one["name"] for one in found["curves"]] == [f"{name} on validation"]
    assert curve_names(metric)["loss"] == "loss of the aggregators"


def test_nodes_are_explained_in_parts_so_that_the_time_left_is_known(predictor, monkeypatch):
    monkeypatch.setattr(payloads, "_FEWEST_TOLD", 10)
    sizes, told = list[int](), list[float]()
    explain = type(predictor).explain_nodes

    def counted(self, nodes):
        sizes.append(len(nodes))
        return explain(self, nodes)

    monkeypatch.setattr(type(predictor), "explain_nodes", counted)
    with watch(told.append):
        payloads.build_payload(predictor)
    assert sizes == [10] * 8
    assert told == sorted(told)


KEEP_CHARTS = """() => {
    let drawn = null;
    window.charts = [];
    Object.defineProperty(window, "uPlot", {
        configurable: true,
        get: () => function (...given) {
            window.charts.push(given.slice(0, 2));
            return new drawn(...given);
        },
        set: (one) => { drawn = one; },
    });
}"""
"""Remember what every chart is drawn from."""


@in_chromium
def test_roc_curves_have_the_area_that_their_legend_names(make_reader, payload):
    reader = make_reader()
    reader.page.add_init_script(f"({KEEP_CHARTS})()")
    page = reader.open("tab=judge")
    charts = page.evaluate("charts.map(([options, data]) => [options.series.map((one) => one.label), data])")
    checked = 0
    for labels, (x, *lines) in charts:
        for label, values in zip(labels[1:], lines, strict=True):
            points = [(one, value) for one, value in zip(x, values, strict=True) if value is not None]
            if labels[0] not in ("false positive rate", "planted noise kept") or label == "diagonal":
                continue
            area = sum((b[0] - a[0]) * (a[1] + b[1]) / 2 for a, b in itertools.pairwise(points))
            assert area == pytest.approx(float(label.split()[-1]), abs=0.01), label
            checked += 1
    assert checked >= 3


@in_chromium
def test_a_chart_has_its_table(make_reader):
    page = make_reader().open("tab=judge")
    chart = page.locator("#judge section[aria-label='Over the threshold']")
    chart.locator("summary").click()
    assert chart.locator("tbody tr").count() > 100


@in_chromium
def test_tiny_thresholds_and_probabilities_are_shown_with_their_first_digits(make_reader, write, payload):
    own = 1.23e-10
    about = payload["about"] | {"threshold": own, "thresholds": thresholds_of(own).tolist()}
    keep = np.full(unpacked(payload["links"]["keep"]).size, 2.56e-6)
    links = payload["links"] | {"keep": pack(keep, "f4")}
    page = make_reader(address=write(payload | {"about": about, "links": links, "judge": None})).open(
        "node=041&step=1"
    )
    assert page.text_content("#see .threshold button") == "Model's own (1.23e-10)"
    assert page.text_content("#see .words") == "1.23e-10"
    card = page.text_content(".detail .card")
    assert "at threshold 1.23e-10" in card
    assert "2.56e-6" in card


@in_chromium
def test_a_downloaded_table_has_no_digits_that_mean_nothing(make_reader):
    page = make_reader().open("node=041")
    _, content = downloaded(page, "[aria-label^='Download the table episode']")
    for row in csv.DictReader(io.StringIO(content.decode("utf-8-sig"), newline="")):
        for name in ("genuine_probability", "agreement", "cosine", "keep_by_node", "keep_probability"):
            digits = row[name].split("e")[0].replace(".", "").replace("-", "").lstrip("0")
            assert len(digits) <= (4 if name in ("agreement", "cosine") else 7), (name, row[name])
            assert math.isfinite(float(row[name]))


WIDE = """(selector) => [...document.querySelectorAll(selector)]
    .filter((one) => one.scrollWidth > one.clientWidth + 1).map((one) => one.outerHTML.slice(0, 200))"""


@in_chromium
def test_long_ids_and_classes_stay_within_their_part_of_the_page(make_reader, write, payload):
    name, node = "longclass" * 12, "longid" * 30
    text = json_text(payload)
    for old, new in ((CLASSES[2], name), ("041", node)):
        text = text.replace(json_text(old), json_text(new))
    page = make_reader(address=write(json.loads(text))).open(f"node={node}")
    assert page.text_content("#see h2 bdi") == node
    assert page.evaluate(WIDE, "#why, #why h2, #why section .scroll") == []
    page.keyboard.press("j")
    page.wait_for_selector("#judge .u-legend")
    assert page.evaluate(WIDE, "#judge .card") == []
    assert page.locator(f".matrix [title='{name}']").count() >= 2


WRITTEN = """window.written = [];
const fillText = CanvasRenderingContext2D.prototype.fillText;
CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
    const width = this.measureText(text).width;
    const left = x - (this.textAlign === "right" ? width : this.textAlign === "center" ? width / 2 : 0);
    if (this.canvas.closest?.("[aria-label='Training: small']")) window.written.push([text, left, this.textAlign]);
    return fillText.call(this, text, x, y);
};"""


@in_chromium
@pytest.mark.parametrize(
    ("least", "most"), [(-0.0387, -0.0321), (-2e-4, 4e-4), (0.0, 4.1e-5), (-123456.0, 0.0)]
)
def test_the_numbers_beside_a_chart_differ_and_are_not_cut_off(make_reader, write, payload, least, most):
    curves = [{"name": "small", "y": [least, most, (least + most) / 2]}]
    judge = payload["judge"] | {"training": {"epoch": [1, 2, 3], "best": 2, "curves": curves}}
    reader = make_reader(address=write(payload | {"judge": judge}))
    reader.page.add_init_script(WRITTEN)
    page = reader.open("tab=judge")
    page.wait_for_selector("section[aria-label='Training: small'] canvas")
    page.wait_for_function("() => window.written.length > 3")
    beside = {text: left for text, left, align in page.evaluate("window.written") if align == "right"}
    numbers = [float(text.replace("\u2212", "-")) for text in beside]
    assert len(numbers) >= 3
    assert len(set(numbers)) == len(numbers)
    assert least - (most - least) <= min(numbers) < max(numbers) <= most + (most - least)
    assert min(beside.values()) >= 0


@in_chromium
def test_ids_and_classes_that_show_nothing_are_named_by_their_characters(make_reader, write, payload):
    text = json_text(payload)
    for old, new in ((CLASSES[0], " "), ("041", "\u200b\u00a0")):
        text = text.replace(json_text(old), json_text(new))
    page = make_reader(address=write(json.loads(text))).open("node=%E2%80%8B%C2%A0")
    assert page.text_content("#see h2 bdi") == "(U+200B U+00A0)"
    assert "(U+200B U+00A0)" in page.text_content("#why h2")
    assert "(U+0020)" in page.text_content("#why")
    assert "(U+0020)" in page.text_content("#see .legend")


@in_chromium
def test_a_graph_without_features_has_no_cosine_of_them(make_reader, write, payload):
    about = payload["about"] | {"features": 0}
    page = make_reader(address=write(payload | {"about": about})).open("node=041&step=1")
    card = page.text_content(".detail .card")
    assert "common neighbour" in card
    assert "cosine" not in card


def test_the_steps_of_a_very_large_node_are_not_clipped(predictor):
    told = predictor.explain("041")
    last = replace(told.decisions[-1], step=70_000)
    columns = step_columns(
        part_of_all(predictor.graph), [replace(told, decisions=(*told.decisions[:-1], last))]
    )
    assert unpacked(columns["step"])[-1] == 70_000
    assert columns["common_neighbours"]["type"] == "u16"
