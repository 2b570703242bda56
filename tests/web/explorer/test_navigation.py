"""Ways through the page: the address, the keyboard, the focus, and what a click shows."""

import pytest
from tools.chromium import chromium_path

from web.explorer.reader import PICTURE_OF

pytest.importorskip("playwright.sync_api", reason="Playwright for Python is not installed (extra dev)")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        chromium_path() is None, reason="Chromium is not installed (apt-get install chromium)"
    ),
]


PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
FOCUS = "document.activeElement"


def test_back_leads_to_the_first_node_and_the_page_goes_on(make_reader):
    page = make_reader().open()
    first = page.text_content("#see h2 bdi")
    assert "node=" in page.url
    other = "041" if first != "041" else "040"
    page.goto(f"{page.url.split('#')[0]}#node={other}")
    page.wait_for_function("(id) => document.querySelector('#see h2 bdi').textContent === id", arg=other)
    page.go_back()
    page.wait_for_function("(id) => document.querySelector('#see h2 bdi').textContent === id", arg=first)
    page.keyboard.press("2")
    page.wait_for_selector("#see [data-value='2'][aria-checked=true]")


def test_the_evidence_for_a_chosen_edge_comes_into_view(make_reader):
    page = make_reader(viewport={"width": 1400, "height": 700}).open("node=041")
    page.evaluate(f"{PICTURE_OF}.edges('.own')[0].emit('tap')")
    page.wait_for_selector(".detail .card")
    shown = page.evaluate(
        "['.detail .card', '#why'].map((one) => document.querySelector(one).getBoundingClientRect().bottom)"
    )
    assert shown[0] <= shown[1] + 1


def test_on_a_phone_a_chosen_edge_is_said_in_short_and_leads_to_its_evidence(make_reader):
    page = make_reader(**PHONE).open("node=041")
    page.evaluate(f"{PICTURE_OF}.edges('.own')[0].emit('tap')")
    assert "edge to" in page.text_content("#see .brief")
    page.tap("#see .brief button")
    box = page.locator(".detail .card").bounding_box()
    assert 0 <= box["y"] < 700
    assert "panel=why" in page.url
    page.reload()
    page.wait_for_selector("body[data-ready]")
    assert page.is_visible("#why")
    assert not page.is_visible("#see")


SMALL = PHONE | {"viewport": {"width": 360, "height": 640}}


def test_what_a_phone_says_of_an_edge_neither_covers_the_picture_nor_changes_its_size(make_reader):
    page = make_reader(**SMALL).open("node=041")
    before = page.locator("#see .canvas").bounding_box()
    assert before["height"] > 160
    assert page.text_content("#see .brief") == "Tap a neighbour: its edge is described here."
    page.evaluate(f"{PICTURE_OF}.edges('.own')[0].emit('tap')")
    page.wait_for_selector("#see .brief button")
    assert page.locator("#see .canvas").bounding_box() == before
    assert page.locator("#see .brief").bounding_box()["y"] >= before["y"] + before["height"]
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_the_focus_stays_where_it_was_when_its_part_is_drawn_anew(make_reader):
    page = make_reader().open("node=041&step=1&list=hubs")
    page.click("#see [data-value='2']")
    page.wait_for_selector("#see [data-value='2'][aria-checked=true]")
    assert page.evaluate(f"{FOCUS}.dataset.value") == "2"
    page.keyboard.press("ArrowLeft")
    page.wait_for_selector("#see [data-value='1'][aria-checked=true]")
    assert page.evaluate(f"{FOCUS}.dataset.value") == "1"
    second = page.text_content(".nodes li:nth-child(2) .id")
    page.click(".nodes li:nth-child(2) button")
    page.wait_for_function("(id) => document.querySelector('#see h2 bdi').textContent === id", arg=second)
    assert page.evaluate(f"{FOCUS}.querySelector('.id').textContent") == second
    page.keyboard.press("ArrowRight")
    page.click("text=Go to this node")
    page.wait_for_function("(id) => document.querySelector('#see h2 bdi').textContent !== id", arg=second)
    assert page.evaluate(f"{FOCUS}.id") == "why"


def test_the_focus_stays_in_the_picture_that_goes_to_another_node_and_its_zoom_when_an_edge_is_chosen(
    make_reader,
):
    page = make_reader(**PHONE).open("node=041")
    page.focus("#see .canvas")
    page.keyboard.press("+")
    zoom = page.evaluate(f"{PICTURE_OF}.zoom()")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("#see .brief:not([hidden])")
    page.wait_for_timeout(100)  # for what observes sizes
    assert page.evaluate(f"{PICTURE_OF}.zoom()") == zoom
    page.keyboard.press("Enter")
    page.wait_for_function("document.querySelector('#see h2 bdi').textContent !== '041'")
    assert page.evaluate(f"{FOCUS}.matches('.canvas')")


def test_arrows_are_left_to_what_scrolls_and_single_keys_can_be_switched_off(make_reader):
    page = make_reader().open("node=041&tab=judge")
    page.focus("#judge .scroll")
    page.keyboard.press("ArrowRight")
    assert "step=" not in page.url
    page.keyboard.press("?")
    page.uncheck("#single")
    page.keyboard.press("Escape")
    page.keyboard.press("e")
    assert page.is_visible("#judge")
    assert "keys=off" in page.url


def test_a_click_on_a_node_farther_away_says_for_all_to_see_what_to_do(make_reader):
    page = make_reader().open("node=041&hops=2")
    page.evaluate(f"{PICTURE_OF}.nodes('.ring2[^more]')[0].emit('tap')")
    assert page.locator("#see .note").inner_text().endswith("double-click to go there.")


def test_the_table_of_heads_can_be_scrolled_with_the_keyboard(make_reader):
    page = make_reader().open("node=041")
    table = page.locator("#why section[aria-label='What each head says'] .scroll")
    assert [table.get_attribute(name) for name in ("tabindex", "role", "aria-label")] == [
        "0",
        "region",
        "What each head says",
    ]


CONTRAST = """(selector) => {
    const context = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    const parts = (colour) => {
        context.clearRect(0, 0, 1, 1);
        context.fillStyle = colour;
        context.fillRect(0, 0, 1, 1);
        const found = context.getImageData(0, 0, 1, 1).data;
        return [...found.slice(0, 3), found[3] / 255];
    };
    const over = (front, back) => [0, 1, 2].map((at) => front[at] * front[3] + back[at] * (1 - front[3]));
    const light = (colour) => colour
        .map((one) => one / 255)
        .map((one) => (one < 0.03928 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4))
        .reduce((sum, one, at) => sum + one * [0.2126, 0.7152, 0.0722][at], 0);
    return Math.min(...[...document.querySelectorAll(selector)].map((node) => {
        const above = [];
        for (let one = node; one; one = one.parentElement) above.unshift(getComputedStyle(one));
        const back = above.reduce((found, style) => over(parts(style.backgroundColor), found), [255, 255, 255]);
        const ink = parts(above.at(-1).color);
        ink[3] *= above.reduce((found, style) => found * Number(style.opacity), 1);
        const [less, more] = [light(back), light(over(ink, back))].sort((one, other) => one - other);
        return (more + 0.05) / (less + 0.05);
    }));
}"""
"""The smallest contrast of some texts with what is behind them."""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_numbers_of_the_matrix_and_of_the_chosen_row_can_be_read(make_reader, scheme):
    page = make_reader(color_scheme=scheme).open("node=041&threshold=1&step=1")
    assert page.evaluate(CONTRAST, ".steps tr.chosen .drop") >= 4.5
    page.goto(page.url.replace("threshold=1", "threshold=0"))
    page.wait_for_selector(".steps tr.chosen .keep")
    assert page.evaluate(CONTRAST, ".steps tr.chosen .keep") >= 4.5
    page.goto(f"{page.url.split('#')[0]}#tab=judge&threshold=1")
    page.wait_for_selector(".matrix small")
    assert page.evaluate(CONTRAST, ".matrix span, .matrix small") >= 4.5
