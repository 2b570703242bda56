"""The page in Chromium: a reader finds, sees, asks why, judges and downloads; nothing is asked from elsewhere."""

import csv
import io
import struct
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest
import torch
from tools.chromium import chromium_path

from gdpnet.data.graph import Graph
from gdpnet.data.validation import UNKNOWN
from gdpnet.web.explorer.packing import pack, pack_names
from gdpnet.web.explorer.page import render_page
from gdpnet.web.explorer.payload import build_payload
from helpers.pages import CLASSES, HOSTILE, unpacked
from helpers.small import FAST, fitted, noisy_graph
from web.explorer.reader import PAINTED, downloaded

pytest.importorskip("playwright.sync_api", reason="Playwright for Python is not installed (extra dev)")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        chromium_path() is None, reason="Chromium is not installed (apt-get install chromium)"
    ),
]

PICTURE = """() => [...document.querySelectorAll('#see canvas')].map((one) => one.toDataURL()).join()"""


def quoted(text: str) -> str:
    """Return a text as it stands in an address."""
    return quote(text, safe="")


def page_of(folder: Path, graph: Graph, model=None, **changes) -> str:
    """Write a page of a graph, with a new model unless one is given; return its address."""
    model = model or fitted(graph, FAST.with_values(changes))
    path = folder / "page.html"
    path.write_text(render_page(build_payload(model, graph)), encoding="utf-8")
    return path.as_uri()


def test_the_page_opens_with_a_picture_and_asks_for_nothing(make_reader, payload):
    reader = make_reader()
    page = reader.open()
    assert reader.drawn() > 3
    assert len(reader.asked) == 1
    assert page.text_content("#title") == 'run "1" <b>'
    assert page.title() == 'GDPNet explorer: run "1" <b>'


def test_the_policy_stops_a_script_that_asks_for_something(make_reader):
    reader = make_reader()
    page = reader.open()
    assert page.evaluate("fetch('http://127.0.0.1:9/').then(() => 'sent', () => 'stopped')") == "stopped"
    assert "Content Security Policy" in "".join(reader.complaints)
    reader.asked, reader.complaints = [], []  # this time asked on purpose


@pytest.mark.parametrize("text", ["041", "שלום", "<script>document"])
def test_search_finds_a_node_and_enter_goes_to_it(make_reader, payload, text):
    reader = make_reader()
    page = reader.open()
    page.keyboard.press("/")
    page.keyboard.type(text)
    page.wait_for_selector("#found [role=option]")
    found = page.text_content("#found [role=option] .id")
    assert text in found
    page.keyboard.press("Enter")
    page.wait_for_function("(id) => document.querySelector('#see h2 bdi').textContent === id", arg=found)
    assert payload["nodes"]["id"][[*payload["nodes"]["id"]].index(found)] == found
    assert page.evaluate("new URLSearchParams(location.hash.slice(1)).get('node')") == found


def test_search_finds_the_nodes_of_a_class_and_says_if_there_are_none(make_reader):
    page = make_reader().open()
    page.fill("#search", "مرحبا")
    page.wait_for_selector("#found [role=option]")
    assert page.locator("#found [role=option]").count() > 3
    page.fill("#search", "nobody is called this")
    page.wait_for_selector("#found li.quiet")
    assert "No node" in page.text_content("#found")


def test_a_search_says_how_many_nodes_match_even_if_it_shows_fewer(make_reader):
    page = make_reader().open()
    page.fill("#search", "a")  # classes have it too
    page.wait_for_selector("#found li.quiet")
    shown = page.text_content("#found li.quiet")
    assert shown.startswith("50 of ")
    assert page.locator("#found .id").count() == 50
    page.wait_for_function(f"() => `${{document.querySelector('#status').textContent}}.` === '{shown}'")
    page.fill("#search", "04")
    page.wait_for_function("() => document.querySelector('#status').textContent.endsWith('nodes found')")
    assert page.locator("#found li.quiet").count() == 0


def test_an_equal_id_is_found_behind_many_that_begin_with_it(make_reader, tmp_path):
    ids = [*(f"x{place}" for place in range(100, 179)), "x1"]
    page = make_reader(address=page_of(tmp_path, replace(noisy_graph(), node_ids=np.array(ids)))).open()
    page.fill("#search", "x1")
    page.wait_for_selector("#found [role=option]")
    assert page.locator("#found .id").all_text_contents()[:2] == ["x1", "x100"]
    assert page.text_content("#found li.quiet") == "50 of 80 nodes shown."


def test_a_list_without_a_node_says_so(make_reader, payload):
    assert not next(one["rows"] for one in payload["lists"] if one["key"] == "suspected")
    page = make_reader().open("list=suspected")
    assert page.locator("#list option:checked").text_content() == "Suspected label errors"
    assert "No suspected label errors." in page.text_content("#find")
    page.select_option("#list", "removed")
    page.locator("#see input[type=range]").fill("0")
    page.wait_for_selector("#find >> text=No edge is below this threshold.")


def test_lists_lead_to_nodes(make_reader, payload):
    page = make_reader().open("list=hubs")
    (hubs,) = (one["rows"] for one in payload["lists"] if one["key"] == "hubs")
    assert page.locator(".nodes button .id").all_text_contents() == [row["id"] for row in hubs]
    page.click(".nodes li:nth-child(2) button")
    page.wait_for_function(
        "(id) => document.querySelector('#see h2 bdi').textContent === id", arg=hubs[1]["id"]
    )


def test_the_slider_moves_what_is_kept_in_picture_table_and_address(make_reader, payload, predictor):
    reader = make_reader()
    page = reader.open("node=041&threshold=0")
    reader.drawn()
    told = predictor.explain("041")
    before = page.evaluate(PICTURE)
    slider, grid = page.locator("#see input[type=range]"), payload["judge"]["thresholds"]["threshold"]
    middle = sorted(one.keep_probability for one in told.decisions)[len(told.decisions) // 2]
    place = next(at for at, one in enumerate(grid) if one > middle)
    assert page.locator(".steps .drop").count() == 0
    slider.fill(str(place))
    dropped = sum(one.keep_probability < grid[place] for one in told.decisions)
    assert dropped > 0
    page.wait_for_function(f"() => document.querySelectorAll('.steps .drop').length === {dropped}")
    assert f"{len(told.decisions) - dropped} of {len(told.decisions)} edge" in page.text_content("figcaption")
    kept = predictor.denoise(threshold=grid[place]).kept.sum()
    assert f"{kept:,} edge" in page.text_content("#see .words")
    assert float(page.evaluate("new URLSearchParams(location.hash.slice(1)).get('threshold')")) == grid[place]
    page.wait_for_function(f"(before) => ({PICTURE})() !== before", arg=before)


def test_the_episode_is_that_of_explain_step_by_step(make_reader, predictor):
    told = max((predictor.explain(one) for one in ("041", "040", "030")), key=lambda one: len(one.decisions))
    page = make_reader().open(f"node={told.node}")
    assert page.locator(".steps tbody tr .link bdi").all_text_contents() == [
        one.neighbour for one in told.decisions
    ]
    for at, one in enumerate(told.decisions):
        page.click("[aria-label='Next neighbour']")
        page.wait_for_selector(f".steps tbody tr:nth-child({at + 1}).chosen")
        card = page.text_content(".detail .card")
        assert f"Edge to {one.neighbour}" in card
        assert f"{one.keep_probability:.3f}" in card
        assert f"adds {one.contribution:+.3f}"[-5:] in card  # without its sign
        assert f"feature cosine {one.cosine:.2f}" in card.replace("Feature", "feature")
    assert page.is_disabled("[aria-label='Next neighbour']")
    heads = page.locator("#why section[aria-label='What each head says'] tbody tr")
    assert heads.count() == len(told.heads)


def test_two_hops_and_both_views_are_drawn(make_reader):
    reader = make_reader()
    page = reader.open("node=041")
    page.click("#see [data-value='2']")
    page.click("#see [data-value=both]")
    page.wait_for_function("() => document.querySelectorAll('#see figure').length === 2")
    assert reader.drawn("#see figure:nth-child(1) canvas") > 3
    assert reader.drawn("#see figure:nth-child(2) canvas") > 3
    assert "hops=2" in page.url
    assert "view=both" in page.url


def test_the_address_brings_everything_back_and_so_does_the_back_button(make_reader):
    reader = make_reader()
    page = reader.open("node=040&threshold=0.42&hops=2&view=after&step=1&list=hubs")
    assert page.text_content("#see h2 bdi") == "040"
    assert page.text_content("#see .words").startswith("0.42")
    assert page.get_attribute("#see [data-value=after]", "aria-checked") == "true"
    assert page.locator(".steps tr.chosen").count() == 1
    page.click("text=Go to this node")
    page.wait_for_function("() => document.querySelector('#see h2 bdi').textContent !== '040'")
    page.go_back()
    page.wait_for_function("() => document.querySelector('#see h2 bdi').textContent === '040'")


def test_an_unknown_node_in_the_address_is_a_sentence(make_reader):
    page = make_reader().open("node=nobody")
    assert (
        page.text_content("#problem") == "The node cannot be shown: no node on this page has the id 'nobody'."
    )


def test_an_address_that_asks_for_what_there_is_not_opens_what_there_is(make_reader):
    page = make_reader().open("node=041&view=zzz&hops=9&tab=zzz&list=zzz&theme=zzz")
    assert page.get_attribute("#see [data-value=decisions]", "aria-checked") == "true"
    assert page.get_attribute("#see [data-value='1']", "aria-checked") == "true"
    assert page.text_content("figcaption").startswith("Decisions on the edges")
    assert page.text_content("#problem") == ""


@pytest.mark.parametrize("taken", [0, 2])
def test_neighbours_that_the_episode_did_not_reach_are_no_steps(make_reader, payload, tmp_path, taken):
    found, place = with_an_episode_of(payload, taken)
    path = tmp_path / "ended.html"
    path.write_text(render_page(found), encoding="utf-8")
    page = make_reader(address=path.as_uri()).open(f"node={quoted(found['nodes']['id'][place])}")
    count, why = page.locator(".steps tbody tr").count(), page.text_content("#why")
    others = count - taken
    assert page.locator(".steps td:first-child").all_text_contents() == (
        [str(one + 1) for one in range(taken)] + ["\u2013"] * others
    )
    if taken:
        assert f"ended after {taken} steps, before all" in why
        assert f"{taken} steps and {others} other neighbours: choose" in why
    else:
        assert "The greedy episode ended at once, before any neighbour was reached." in why
        assert f"{count} neighbours: choose" in why
    page.click(f".steps tbody tr:nth-child({taken + 1})")
    page.wait_for_selector(f".steps tbody tr:nth-child({taken + 1}).chosen")
    name = "Other neighbour" if taken else "Neighbour"
    assert f"{name} 1 of {others}" in page.text_content(".episode")
    label = page.get_attribute(f".steps tbody tr:nth-child({taken + 1}) button", "aria-label")
    assert label.startswith("Neighbour ")
    page.keyboard.press("ArrowRight")
    page.wait_for_function(
        "(words) => document.querySelector('#status').textContent.startsWith(words)",
        arg=f"{name.lower()} 2 of {others}: ",
    )


def with_an_episode_of(payload: dict, taken: int) -> tuple[dict, int]:
    """Return a page in which every episode ended after some steps, and the place of a node with more neighbours."""
    first = unpacked(payload["steps"]["row_ptr"])
    place = int(np.diff(first).argmax())
    step = np.concatenate([np.arange(1, count + 1) for count in np.diff(first)])
    steps = payload["steps"] | {"step": pack(np.where(step <= taken, step, 0), "u2")}
    nodes = payload["nodes"] | {"ended_early": pack(np.ones(payload["nodes"]["count"]), "u1")}
    return payload | {"steps": steps, "nodes": nodes}, place


def test_the_legend_names_a_class_that_only_a_ring_shows(make_reader, payload, tmp_path):
    """No node is predicted to be of the class that node 041 is known to be of."""
    known, at = payload["nodes"]["label"], payload["nodes"]["id"].index("041")
    own = unpacked(known)[at]
    other = next(one for one in payload["about"]["classes"] if one != own)
    predicted = pack_names([other] * payload["nodes"]["count"])
    path = tmp_path / "ring.html"
    path.write_text(
        render_page(payload | {"nodes": payload["nodes"] | {"predicted": predicted}}), encoding="utf-8"
    )
    page = make_reader(address=path.as_uri()).open("node=041")
    named = page.locator("#see .legend bdi").all_text_contents()
    assert {own, other} <= set(named)


SCALE = """(figure) => {
    const cy = document.querySelector(`#see figure:nth-child(${figure}) .canvas`)._cyreg.cy;
    const box = cy.elements().renderedBoundingBox();
    return { zoom: cy.zoom(), high: box.h / cy.height() };
}"""


def test_few_neighbours_fill_both_sides_with_texts_that_can_be_read(make_reader, tmp_path):
    here = torch.arange(80)
    ring = torch.cat([torch.stack([here, (here + step) % 80]) for step in (1, 2)], dim=1)
    graph = noisy_graph()
    few = replace(
        Graph.build(ring, graph.features, graph.labels, split=graph.split), class_names=graph.class_names
    )
    address = page_of(tmp_path, few)
    page = make_reader(address=address, viewport={"width": 1280, "height": 900}).open("node=7&view=both")
    for figure in (1, 2):
        found = page.evaluate(SCALE, figure)
        assert found["zoom"] > 0.9
        assert found["high"] > 0.5


def test_the_table_is_downloaded_as_csv(make_reader, predictor, payload):
    told = max((predictor.explain(one) for one in HOSTILE), key=lambda one: len(one.decisions))
    hostile = told.node
    assert told.decisions
    page = make_reader().open("node=" + quoted(hostile))
    name, content = downloaded(page, "[aria-label^='Download the table episode']")
    assert name.endswith(".csv")
    rows = list(csv.DictReader(io.StringIO(content.decode("utf-8-sig"), newline="")))
    assert [(row["node"], row["neighbour"]) for row in rows] == [
        (hostile, one.neighbour) for one in told.decisions
    ]
    contributions = [float(row["contribution"]) for row in rows]
    assert contributions == pytest.approx([one.contribution for one in told.decisions], abs=1e-6)


def test_the_picture_is_downloaded_as_png(make_reader):
    page = make_reader().open("node=041&view=both")
    name, content = downloaded(page, "#png")
    assert name == "node-041.png"
    assert content.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", content[16:24])
    assert width > 300
    assert height > 200
    assert len(content) > 5_000  # a blank picture of this size is smaller


def test_texts_of_users_are_shown_as_text(make_reader, payload):
    reader = make_reader()
    for place in range(7):
        node = payload["nodes"]["id"][place]
        page = reader.open(f"node={quoted(node)}&step=1")
        page.wait_for_function("(id) => document.querySelector('#see h2 bdi').textContent === id", arg=node)
        assert node in page.text_content("#why h2")
        assert page.locator("img, iframe, #explore script, #explore b i, #explore i").count() == 0
    assert page.title().startswith("GDPNet explorer")
    page = reader.open("tab=judge")
    assert "<script>alert(1)</script>" in page.text_content(".matrix")


@pytest.mark.parametrize("tab", ["explore", "judge"])
def test_a_phone_shows_one_panel_at_a_time_without_scrolling_sideways(make_reader, tab):
    reader = make_reader(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    page = reader.open(f"node=041&tab={tab}")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    if tab == "judge":
        return
    assert reader.drawn() > 3
    for panel, shown in (("find", "#search"), ("why", ".steps"), ("see", "#see canvas")):
        page.tap(f"[data-go={panel}]")
        page.wait_for_selector(shown, state="visible")
        others = {"find", "see", "why"} - {panel}
        assert not any(page.is_visible(f"#{one}") for one in others)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_dark_colours_follow_the_system_and_the_button(make_reader):
    brightness = "() => getComputedStyle(document.querySelector('header')).backgroundColor"
    reader = make_reader(color_scheme="dark")
    page = reader.open("node=041")
    assert page.evaluate(brightness) == "rgb(20, 23, 26)"
    assert reader.drawn() > 3
    page.click("#theme")
    assert page.evaluate(brightness) == "rgb(255, 255, 255)"
    assert "theme=light" in page.url
    assert make_reader(color_scheme="light").open().evaluate(brightness) == "rgb(255, 255, 255)"


def test_judge_shows_the_scores_and_follows_the_threshold(make_reader, predictor, payload):
    reader = make_reader()
    page = reader.open("tab=judge")
    assert reader.drawn("#judge canvas") > 3
    assert min(page.evaluate(PAINTED, "#judge canvas")) > 3  # every chart
    tables = payload["judge"]["scores"]["tables"]
    assert dict(row[:2] for row in tables[0]["rows"])["micro f1"] in page.text_content("#judge .tiles")
    for title in ("Over the threshold", "Removed edges, class by class", "Settings"):
        assert page.locator(f"#judge section[aria-label='{title}']").count() == 1
    before = page.text_content(".matrix")
    page.locator("#judge input[type=range]").fill("100")
    page.wait_for_function("(before) => document.querySelector('.matrix').textContent !== before", arg=before)
    name, content = downloaded(page, "[aria-label='Download the table Removed edges, class by class as CSV']")
    rows = list(csv.DictReader(io.StringIO(content.decode("utf-8-sig"), newline="")))
    threshold = payload["judge"]["thresholds"]["threshold"][100]
    removed = predictor.graph.num_edges - predictor.denoise(threshold=threshold).kept.sum()
    assert (name, sum(int(row["removed"]) for row in rows)) == ("Removed-edges-class-by-class.csv", removed)


def test_the_legends_of_charts_say_what_the_lines_are(make_reader):
    page = make_reader().open("tab=judge")
    over = page.locator("#judge section[aria-label='Over the threshold'] .u-legend")
    assert set(over.locator(".u-value").all_text_contents()) == {"\u2013"}
    roc = page.locator("#judge section[aria-label='ROC: predictions on test nodes']")
    names = roc.locator(".u-label").all_text_contents()
    assert any(one.startswith(f"\u2068{CLASSES[2]}\u2069 ") for one in names)
    mark = roc.locator(".u-series.faint .u-marker")
    style = mark.evaluate(
        "(one) => ['Top', 'Left'].map((side) => getComputedStyle(one)[`border${side}Style`] + one.offsetHeight)"
    )
    assert style == ["dashed1", "dashed1"]
    _, content = downloaded(page, "[aria-label='Download the table ROC: predictions on test nodes as CSV']")
    assert "\u2068" not in content.decode("utf-8-sig")


def test_the_keyboard_alone_is_enough(make_reader, predictor):
    page = make_reader().open("node=041")
    page.focus("#see .canvas")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector(".steps tbody tr:nth-child(1).chosen")
    assert "neighbour 1 of" in page.text_content("#status")  # the episode ends at once
    page.keyboard.press("Enter")
    first = predictor.explain("041").decisions[0].neighbour
    page.wait_for_function("(id) => document.querySelector('#see h2 bdi').textContent === id", arg=first)
    page.keyboard.press("j")
    page.wait_for_selector("#judge .card")
    page.keyboard.press("e")
    page.wait_for_selector("#see canvas", state="visible")
    page.keyboard.press("?")
    assert page.is_visible("#keys")
    page.keyboard.press("Escape")
    assert not page.is_visible("#keys")


UNNAMED = """() => [...document.querySelectorAll('button, input, select, [role=img], [role=region], .canvas')]
    .filter((one) => one.checkVisibility())
    .filter((one) => !(one.getAttribute('aria-label') || one.textContent.trim() || one.labels?.length))
    .map((one) => one.outerHTML)"""


@pytest.mark.parametrize("tab", ["explore", "judge"])
def test_everything_that_can_be_used_has_a_name_for_screen_readers(make_reader, tab):
    page = make_reader().open(f"node=041&step=1&tab={tab}")
    assert page.evaluate(UNNAMED) == []
    assert page.evaluate("document.documentElement.lang") == "en"
    if tab == "explore":
        label = page.get_attribute("#see .canvas", "aria-label")
        assert "node 041" in label
        assert "kept" in label


def test_a_part_of_a_graph_says_which_neighbours_are_not_on_the_page(make_reader, predictor, tmp_path):
    part = build_payload(predictor, nodes=["041"], hops=1)
    path = tmp_path / "part.html"
    path.write_text(render_page(part), encoding="utf-8")
    page = make_reader(address=path.as_uri()).open("node=041")
    assert f"{part['nodes']['count']} nodes on this page" in page.text_content("#about")
    other = next(one for one in part["nodes"]["id"] if one != "041")
    page.goto(f"{path.as_uri()}#node={quoted(other)}")
    page.wait_for_selector("text=it was not explained itself")


def variants() -> dict:
    """Return graphs and settings whose pages differ most from that of a classification."""
    graph = noisy_graph(60)
    numbers = {"targets": graph.labels.float() * 10, "labels": torch.full((60,), UNKNOWN), "class_names": ()}
    both = ["a|b", "b", "a"]
    directed = Graph.build(
        graph.edge_index[:, ::2], graph.features, graph.labels, split=graph.split, directed=True
    )
    return {
        "regression": (replace(graph, **numbers), {"task": {"kind": "regression", "bins": 4}}),
        "multi-label": (replace(graph, class_names=tuple(both)), {"task": {"kind": "multi-label"}}),
        "links": (graph, {"task": {"kind": "links"}, "links": {"steps": 20}}),
        "clusters": (graph, {"task": {"kind": "clusters", "clusters": 3}}),
        "directed": (directed, {}),
        "two hops": (graph, {"policy": {"hops": 2, "hidden": [8, 6]}}),
        "no edges": (None, {}),
    }


WORDS = {
    "regression": {"#why .running": "The prediction goes from", "#why .sum": "Predicted: "},
    "links": {"#why h2": "Why are neighbours of ", "#why .sum": "Probability of community "},
    "clusters": {"#why h2": " in cluster ", "#why .sum": "Probability of community "},
    "directed": {"#see figcaption": " in and out kept", "#why .chips": " incoming edge"},
}
"""What a page says of its task or graph, by the part that says it."""


@pytest.mark.parametrize(
    "name", ["regression", "multi-label", "links", "clusters", "directed", "two hops", "no edges"]
)
def test_pages_of_other_tasks_and_graphs_open_too(make_reader, tmp_path, predictor, name):
    graph, changes = variants()[name]
    if graph is None:
        bare = predictor.graph.keep_edges(torch.zeros(predictor.graph.num_edges, dtype=torch.bool))
        found = build_payload(predictor.model, bare)
    else:
        found = build_payload(fitted(graph, FAST.with_values(changes)), graph)
    path = tmp_path / "other.html"
    path.write_text(render_page(found), encoding="utf-8")
    reader = make_reader(address=path.as_uri())
    hub = next(
        (one["rows"][0]["id"] for one in found["lists"] if one["key"] == "hubs" and one["rows"]),
        found["nodes"]["id"][0],
    )
    page = reader.open(f"node={quoted(hub)}&hops=2&step=1")
    assert reader.drawn() > 3
    assert page.text_content("#problem") == ""
    assert page.locator(".steps tr.chosen").count() == (0 if graph is None else 1)
    for selector, words in WORDS.get(name, {}).items():
        assert words in page.inner_html(selector), selector
    if name in ("links", "clusters"):
        assert (
            page.locator("#see .legend .ring").count() == page.locator("#list [value=suspected]").count() == 0
        )
    page.keyboard.press("j")
    page.wait_for_selector("#judge .card")
    assert page.evaluate(UNNAMED) == []


def test_the_page_opens_with_a_node_that_is_no_hub_unless_the_address_names_one(make_reader, model, tmp_path):
    """Node 79 gets 40 neighbours, of which most are removed at this threshold."""
    graph = noisy_graph()
    star = torch.stack([torch.full((40,), 79), torch.arange(40)])
    found = build_payload(
        model, replace(Graph.build(torch.cat([graph.edge_index, star], dim=1), graph.features), truth=None)
    )
    removed = next(one["rows"] for one in found["lists"] if one["key"] == "removed")
    assert removed[0]["id"] == "79"
    degree = dict(zip(found["nodes"]["id"], unpacked(found["nodes"]["degree"]).tolist(), strict=True))
    small = next(row["id"] for row in removed if degree[row["id"]] <= 20)
    path = tmp_path / "hub.html"
    path.write_text(render_page(found), encoding="utf-8")
    reader = make_reader(address=path.as_uri())
    assert reader.open().text_content("#see h2 bdi") == small
    page = make_reader(address=path.as_uri()).open("node=79")
    assert page.text_content("#see h2 bdi") == "79"


def test_data_that_is_no_payload_is_a_sentence_and_not_a_blank_page(chromium, tmp_path):
    path = tmp_path / "broken.html"
    path.write_text(render_page({"about": {"title": ""}}), encoding="utf-8")
    page = chromium.new_page()
    page.goto(path.as_uri())
    page.wait_for_selector("#problem:not([hidden])")
    assert page.text_content("#problem").startswith("The page cannot be shown: ")
    page.close()
