"""The picture around a node: which neighbours are drawn, what the caption counts, and what is downloaded."""

import struct

import numpy as np
import pytest
import torch
from tools.chromium import chromium_path

from gdpnet.web.explorer.judge import thresholds_of
from gdpnet.web.explorer.packing import pack
from gdpnet.web.explorer.payload import build_payload
from helpers.pages import unpacked
from web.explorer.reader import PICTURE_OF, downloaded

pytest.importorskip("playwright.sync_api", reason="Playwright for Python is not installed (extra dev)")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        chromium_path() is None, reason="Chromium is not installed (apt-get install chromium)"
    ),
]


RING = f"(ring) => {PICTURE_OF}.nodes(`.ring${{ring}}`).length"
MORE = f"{PICTURE_OF}.nodes('.more').map((one) => one.data('label'))"
VISIBLE = f"{PICTURE_OF}.edges('.own').filter((one) => one.visible()).length"


def test_two_hops_around_a_large_node_draw_none_of_its_own_neighbours_as_farther_away(
    make_reader, write, star
):
    page = make_reader(address=write(star)).open("node=79&hops=2")
    assert [page.evaluate(RING, ring) for ring in (1, 2)] == [60, 0]
    assert page.evaluate(MORE) == ["+ 19 more"]


def test_after_draws_kept_neighbours_first_and_counts_the_edges_that_are_there(make_reader, write, star):
    first, keep = unpacked(star["links"]["row_ptr"]), unpacked(star["links"]["keep"])
    own = keep[first[79] : first[80]]
    threshold = float(np.sort(own)[-30]) - 1e-6
    kept = int((own >= threshold).sum())
    page = make_reader(address=write(star)).open(f"node=79&view=after&threshold={threshold}")
    assert page.evaluate(VISIBLE) == kept
    assert f"{kept} of 79 edges kept, {kept} drawn" in page.text_content("figcaption")


def test_the_neighbours_that_are_not_drawn_are_a_button_away_and_the_focus_stays_in_the_picture(
    make_reader, write, star
):
    page = make_reader(address=write(star)).open("node=79")
    page.focus("#more")
    assert page.text_content("#more") == "Show 19 more"
    page.keyboard.press("Enter")
    assert page.evaluate(RING, 1) == 79
    assert page.locator("#more").count() == 0
    assert page.evaluate("document.activeElement.closest('#see') !== null")


INSIDE = """() => [...document.querySelectorAll('#see .canvas')].every((one) => {
    const cy = one._cyreg.cy, box = cy.elements().renderedBoundingBox();
    return box.x1 >= -1 && box.y1 >= -1 && box.x2 <= cy.width() + 1 && box.y2 <= cy.height() + 1;
})"""


def test_a_wide_picture_is_not_cut_off_on_a_phone(make_reader, write, star):
    page = make_reader(address=write(star), viewport={"width": 390, "height": 600}).open("node=79&view=both")
    page.click("#more")
    page.wait_for_function(INSIDE)


def test_the_picture_of_a_node_without_edges_is_downloaded_with_its_title_and_legend(
    make_reader, write, predictor
):
    bare = predictor.graph.keep_edges(torch.zeros(predictor.graph.num_edges, dtype=torch.bool))
    page = make_reader(address=write(build_payload(predictor.model, bare))).open("node=041&step=2")
    _, content = downloaded(page, "#png")
    width, height = struct.unpack(">II", content[16:24])
    assert width >= 900
    assert height > 150
    assert "saved" in page.text_content("#see .note")


@pytest.fixture(scope="module")
def part(predictor):
    return build_payload(predictor, nodes=["041"], hops=1)


def test_a_part_of_a_graph_ranks_only_nodes_all_of_whose_edges_are_there(make_reader, write, part, graph):
    degree = dict(zip(graph.node_ids.tolist(), graph.degree.tolist(), strict=True))
    ends, there = unpacked(part["links"]["row_ptr"]), part["nodes"]["id"]
    cut = [one for one, count in zip(there, np.diff(ends), strict=True) if count < degree[one]]
    assert cut
    page = make_reader(address=write(part)).open("node=041&list=removed&threshold=1")
    rows = dict(
        zip(
            page.locator(".nodes .id").all_text_contents(),
            page.locator(".nodes .quiet").all_text_contents(),
            strict=True,
        )
    )
    assert rows
    assert not set(rows) & set(cut)
    assert all(text.endswith(f" of {degree[one]} edges") for one, text in rows.items())


def test_a_part_of_a_graph_says_that_it_counts_the_edges_on_this_page(make_reader, write, part, graph):
    degree = dict(zip(graph.node_ids.tolist(), graph.degree.tolist(), strict=True))
    counts = np.diff(unpacked(part["links"]["row_ptr"]))
    cut = next(one for one, count in zip(part["nodes"]["id"], counts, strict=True) if 1 < count < degree[one])
    page = make_reader(address=write(part)).open(f"node={cut}")
    assert " edges on this page kept" in page.text_content("figcaption")
    assert "Probability of " in page.text_content(
        "#why .sum"
    )  # of the predicted class: the node is not explained


LEVELS = f"{PICTURE_OF}.edges('.own').map((one) => [one.data('keep'), one.data('width'), one.data('colour')])"


def test_with_a_tiny_threshold_kept_edges_are_wider_and_bluer_than_dropped_ones(make_reader, write, payload):
    own = 3e-4
    about = payload["about"] | {"threshold": own, "thresholds": thresholds_of(own).tolist()}
    small = unpacked(payload["links"]["keep"]) ** 12
    assert (small < own).any()
    assert (small > own).any()
    links = payload["links"] | {"keep": pack(small, "f4")}
    page = make_reader(address=write(payload | {"about": about, "links": links, "judge": None})).open(
        "node=041"
    )
    found = page.evaluate(LEVELS)
    assert {keep >= own for keep, *_ in found} == {True, False}
    for keep, width, colour in found:
        red, _, blue = (int(one) for one in colour[4:-1].split(","))
        assert (width > 1.5 + 5.5 / 2, blue > red) == (keep >= own, True if keep >= own else blue > red)
        assert blue <= 163 or keep >= own  # grey is at the threshold


def test_a_node_without_edges_is_not_drawn_large_and_has_no_empty_chart(make_reader, write, predictor):
    bare = predictor.graph.keep_edges(torch.zeros(predictor.graph.num_edges, dtype=torch.bool))
    page = make_reader(address=write(build_payload(predictor.model, bare))).open("node=041&view=both")
    assert page.evaluate(f"{PICTURE_OF}.zoom()") <= 2
    assert "alone" not in page.text_content("#why .sum")
    page.keyboard.press("j")
    page.wait_for_selector("#judge .card")
    assert page.locator("section[aria-label='Over the threshold']").count() == 0
