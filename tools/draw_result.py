"""Draw the README's picture from records: micro-F1 against the number of added random edges.

python tools/draw_result.py
"""

from __future__ import annotations

import json
import statistics
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

ROOT = Path(__file__).parents[1]
DATASETS = {"cora": "Cora", "citeseer": "CiteSeer", "dblp": "DBLP", "pubmed": "PubMed"}
METHODS = {
    "gdpnet": ("GDPNet", "#1f6fb4", "o-"),
    "structural-gcn": ("GCN, structural filter", "#e08a00", "s--"),
    "gcn": ("GCN", "#777777", "^:"),
}
RATES = (0.0, 0.5, 1.0)


def scores(records: Path) -> dict[tuple[str, str, float], list[float]]:
    """Return the test micro-F1 of every seed by dataset, method and rate; of one trial the newest record counts."""
    newest = {}
    for line in records.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        if record["kind"] == "robustness" and record["noise"] == "random-links":
            key = (record["graph"], record["method"], float(record["rate"]), record["seed"])
            newest[key] = record["metrics"].get("micro_f1")
    found: dict[tuple[str, str, float], list[float]] = {}
    for (graph, method, rate, _), score in newest.items():
        if score is not None:
            found.setdefault((graph, method, rate), []).append(score)
    return found


def draw(found: dict[tuple[str, str, float], list[float]]) -> Figure:
    """Draw one panel per dataset, with the standard deviation over seeds as error bars."""
    figure = Figure(figsize=(10, 2.9), layout="constrained")
    for axes, (graph, title) in zip(figure.subplots(1, len(DATASETS)), DATASETS.items(), strict=True):
        for method, (name, colour, style) in METHODS.items():
            values = [found[graph, method, rate] for rate in RATES]
            mean = [100 * statistics.mean(one) for one in values]
            spread = [100 * statistics.stdev(one) for one in values]
            axes.errorbar(
                [100 * rate for rate in RATES], mean, spread, fmt=style, color=colour, label=name, capsize=2
            )
        axes.set(title=title, xlabel="random edges added (%)", xticks=[100 * rate for rate in RATES])
        axes.grid(alpha=0.3)
    figure.axes[0].set_ylabel("micro-F1 on test nodes (%)")
    figure.axes[0].legend(frameon=False, fontsize=8)
    return figure


def main() -> None:
    """Write the picture."""
    matplotlib.rcParams |= {"svg.hashsalt": "gdpnet", "svg.fonttype": "none", "font.family": "sans-serif"}
    figure = draw(scores(ROOT / "results" / "robustness.jsonl"))
    figure.savefig(ROOT / "docs" / "figures" / "robustness.svg", metadata={"Date": None}, facecolor="white")


if __name__ == "__main__":
    main()
