"""What notebooks show: explanations and cleaned graphs as HTML without scripts."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import torch

from gdpnet.data.graph import Graph
from gdpnet.inference.denoised import clean_graph
from gdpnet.inference.explanation import Decision, Explanation, Head

HOSTILE = "<script>alert(1)</script>"


class Reader(HTMLParser):
    """Collects the elements and the text of a page, and counts elements that are not closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.words: list[str] = []
        self.open = 0
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.open += tag != "br"

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        self.open -= 1

    def handle_data(self, data):
        self.words.append(data)


def explanation(count: int = 2) -> Explanation:
    decisions = tuple(
        Decision(
            1 + place, HOSTILE if place == 0 else f"n{place}", 1, 0.5, 0.25 * (place % 4), place % 4 > 1, 0.01
        )
        for place in range(count)
    )
    heads = (Head("aggregator", 1.0, 0.9, "a"),)
    return Explanation(
        HOSTILE, "a", 0.9, 0.9 - 0.01 * count, False, decisions, explained="a", heads=heads, threshold=0.5
    )


def test_an_explanation_has_its_sentences_a_picture_and_its_table():
    found = explanation()
    reader = Reader(found._repr_html_())
    text = "".join(reader.words)
    assert all(line in text for line in found.summary)
    assert reader.tags.count("line") == 2
    assert reader.tags.count("tr") == 3
    assert reader.open == 0


def test_texts_of_users_stay_text():
    page = explanation()._repr_html_()
    assert "script" not in Reader(page).tags
    assert HOSTILE in "".join(Reader(page).words)


def test_dropped_edges_are_dashed_and_kept_ones_wider():
    page = explanation(4)._repr_html_()
    assert page.count("stroke-dasharray") == 2
    assert re.findall(r'stroke-width="([\d.]+)"', page) == [
        "1.5",
        "1.5",
        "3.5",
        "4.8",
    ]  # 1 + 5 x 0.5, 1 + 5 x 0.75


def test_with_a_tiny_threshold_kept_edges_are_told_from_dropped_ones():
    one = explanation(1).decisions[0]
    decisions = [
        replace(one, keep_probability=keep, kept=keep >= 2e-4) for keep in (0.0, 1e-4, 2e-4, 0.02, 1.0)
    ]
    page = replace(explanation(), decisions=tuple(decisions), threshold=2e-4)._repr_html_()
    ends = [(214, 96, 30), (182, 126, 96), (150, 156, 163), (86, 133, 173), (33, 113, 181)]
    found = re.findall(r'r="6" fill="rgb\((\d+),(\d+),(\d+)\)"', page)
    assert np.abs(np.array(found, dtype=int) - np.array(ends)).max() <= 5
    widths = [float(one) for one in re.findall(r'stroke-width="([\d.]+)"', page)]
    assert widths[:3] == [1.5, 1.5, 3.5]
    assert widths[2] < widths[3] < widths[4] == 6
    assert [row[2] for row in explanation_rows(decisions)] == ["0.000", "0.0001", "0.0002", "0.020", "1.000"]


def explanation_rows(decisions: list[Decision]) -> list[list[str]]:
    """Return the rows of an explanation with some decisions."""
    return replace(explanation(), decisions=tuple(decisions)).table()[1]


def test_many_neighbours_are_drawn_and_listed_in_part():
    reader = Reader(explanation(60)._repr_html_())
    assert reader.tags.count("line") == 40
    assert "and 20 neighbours more" in "".join(reader.words)


def test_a_node_without_neighbours_has_no_picture():
    assert "svg" not in Reader(explanation(0)._repr_html_()).tags


def test_a_cleaned_graph_has_its_sentence_and_a_histogram():
    graph = Graph.build([[0, 1], [1, 2]], np.eye(3), spurious=[True, False])
    keep = torch.tensor([0.1, 0.1, 0.9, 0.9])
    cleaned = clean_graph(graph, keep, 0.5, "as asked for", chosen=False)
    text = "".join(Reader(cleaned._repr_html_()).words)
    assert cleaned.summary in text
    assert "100.0% of the known noise is removed, 100.0% of the genuine edges are kept" in text
    assert text.count("2 edges") == 2  # a bar at 0.1 and one at 0.9


def test_a_cleaned_graph_without_edges_has_no_histogram():
    graph = Graph.build(np.zeros((2, 0), dtype=int), np.eye(2))
    cleaned = clean_graph(graph, torch.zeros(0), 0.5, "as asked for", chosen=False)
    assert "svg" not in Reader(cleaned._repr_html_()).tags
