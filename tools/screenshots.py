"""Draw the screenshots of the explorer for the documentation, in headless Chromium: wide, dark, on a phone, and more.

    python tools/screenshots.py

A model is trained on Cora after half as many random edges were added, which the page shows as planted noise; this
wants the datasets under GDPNET_DATA. ``--run`` and ``--graph`` name a run of your own and its graph instead.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

from chromium import browser
from PIL import Image

from gdpnet import GDPNet
from gdpnet.data.io.open import open_graph
from gdpnet.data.noise.registry import corrupt
from gdpnet.web.explorer.page import render_page
from gdpnet.web.explorer.payload import build_payload

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "figures"
WIDE, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 844}

SHOTS: dict[str, dict[str, Any]] = {
    "explorer.png": {"viewport": WIDE, "state": "list=surprising&step=1"},
    "explorer_dark.png": {"viewport": WIDE, "state": "hops=2&view=decisions", "color_scheme": "dark"},
    "explorer_sides.png": {"viewport": WIDE, "state": "view=both"},
    "explorer_judge.png": {"viewport": {"width": 1440, "height": 1250}, "state": "tab=judge"},
    "explorer_phone.png": {"viewport": PHONE, "state": "step=1", "panels": ["see", "why", "find"]},
}
"""What each picture shows: a size, a state of the page, and the panels of a phone beside each other."""


def make_page(run: Path | None, graph: str | None) -> str:
    """Return the page of a run, or that of a model trained on noisy Cora."""
    if run is not None:
        model = GDPNet.load(run, device="cpu")
        return render_page(build_payload(model, open_graph(graph or "cora"), title=run.name))
    noisy = corrupt(open_graph("cora"), "random-links", 0.5, 0).graph
    model = GDPNet(device="cpu", epochs=8).fit(noisy)
    return render_page(build_payload(model, noisy, title="Cora with planted noise"))


def shoot(chromium: Any, address: str, shot: dict[str, Any], path: Path) -> None:
    """Draw one picture; panels are drawn one after the other and put beside each other."""
    scheme = shot.get("color_scheme", "light")
    context = chromium.new_context(viewport=shot["viewport"], color_scheme=scheme, device_scale_factor=1)
    page = context.new_page()
    page.goto(f"{address}#{shot['state']}")
    page.wait_for_selector("body[data-ready]")
    parts = []
    for panel in shot.get("panels", [None]):
        if panel is not None:
            page.click(f"[data-go={panel}]")
        page.wait_for_timeout(600)  # the picture settles
        parts.append(path.with_suffix(f".{len(parts)}.tmp.png"))
        page.screenshot(path=parts[-1])
    context.close()
    drawn = [Image.open(part).convert("RGB") for part in parts]
    gap = 24
    whole = Image.new("RGB", (sum(one.width + gap for one in drawn) - gap, drawn[0].height), "white")
    for place, one in enumerate(drawn):
        whole.paste(one, (place * (one.width + gap), 0))
    whole.save(path, optimize=True)
    for part in parts:
        part.unlink()


def main() -> int:
    """Draw all pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--run", type=Path, help="run folder to show")
    parser.add_argument("--graph", help="its graph")
    parser.add_argument(
        "--out", type=Path, default=FOLDER, help="folder of the pictures (default: docs/figures)"
    )
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, browser() as chromium:
        path = Path(folder) / "explorer.html"
        path.write_text(make_page(options.run, options.graph), encoding="utf-8")
        for name, shot in SHOTS.items():
            shoot(chromium, path.as_uri(), shot, options.out / name)
            print(options.out / name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
