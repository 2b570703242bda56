"""How the kernel that plays copies side by side is best shaped: precision, tile and warps, timed on one block.

Takes the folder that `large.py --device cuda --keep` left. Chances are compared with those of the first variant.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import torch
from records import make_parser, write_record

from gdpnet._core.csr import cut_rows
from gdpnet.data.io.store import open_store
from gdpnet.estimator import GDPNet
from gdpnet.inference.blocks import Blockwise
from gdpnet.inference.observation import make_view
from gdpnet.inference.select import play_of
from gdpnet.selection.engines import triton_engine as engine
from gdpnet.selection.episodes import begin_episodes

VARIANTS = [
    (precision, tile, warps)
    for precision in ("tf32x3", "bf16x3", "tf32")
    for tile in (4, 8)
    for warps in (4, 8)
]


@torch.no_grad()
def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--keep", type=Path, required=True, help="folder that large.py kept")
    parser.add_argument("--edges", type=float, default=1e6, help="size of the kept graph (default: 1e6)")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("this benchmark needs a CUDA device, and there is none")
    model = GDPNet.load(arguments.keep / "model.safetensors", device="cuda")
    graph, config = open_store(arguments.keep / f"store-{int(arguments.edges)}"), model.config_
    work = Blockwise(model.trained_, graph)
    block = cut_rows(graph.row_ptr, 1 << 20)[0]
    work.decide_context(block)
    prepared = work._block(block)
    view = make_view(model.networks_.aggregators, prepared, rows=work.rows)
    episodes = begin_episodes(
        prepared.row_ptr,
        prepared.neighbour,
        torch.arange(*block, device=prepared.device),
        max_candidates=config.policy.max_candidates,
        seed=0,
        shared_keys=True,
    )
    encoded = view.encode(episodes)
    encoded_view = type(view)(lambda _: encoded, view.observe, view.tables)
    play, found, plain = play_of(config, greedy=False), [], None
    for precision, tile, warps in VARIANTS:
        engine.SHARED_PRECISION, engine.SHARED_TILE, engine.SHARED_WARPS = precision, tile, warps
        chance, _ = engine.play_shared(model.networks_.policy, encoded_view, episodes, play, 8)
        torch.cuda.synchronize()
        start = time.perf_counter()
        engine.play_shared(model.networks_.policy, encoded_view, episodes, play, 8)
        torch.cuda.synchronize()
        seconds = time.perf_counter() - start
        plain = chance if plain is None else plain
        apart = float((chance - plain).abs().gt(0.01).double().mean())
        found.append({"variant": [precision, tile, warps], "seconds": seconds, "apart": apart})
        print(found[-1], flush=True)
    metrics = {"candidates": episodes.row.numel(), "copies": 8, "variants": found}
    write_record(arguments.results, "shared_variants", metrics, config.to_dict())


if __name__ == "__main__":
    main()
