"""Select among candidates within two hops: neighbours, and neighbours of neighbours.

    python examples/two_hops.py

Every decision has the distance of its candidate; the cleaned graph has only edges of the graph.
"""

from __future__ import annotations

from gdpnet import GDPNet
from gdpnet.config import PolicySettings
from gdpnet.data.datasets.synthetic import SyntheticSettings, synthetic_graph


def main() -> None:
    """Train with candidates one and two hops away, and show the decisions on a node."""
    graph = synthetic_graph(SyntheticSettings(nodes=400, classes=4, words=400), seed=0)
    policy = PolicySettings(hops=2, far_candidates=8)
    model = GDPNet(policy=policy, seed=0).set_params(training__warmup=5, training__epochs=5)
    model.fit(graph)
    print(f"micro-F1 on test nodes: {model.score(graph):.3f}")
    for one in model.explain(graph, node=7).decisions:
        action = "kept" if one.kept else "dropped"
        print(f"{one.neighbour} at distance {one.distance}: {action} ({one.keep_probability:.2f})")
    cleaned = model.denoise(graph)
    print(f"{cleaned.kept.sum()} of {graph.num_edges} edges stay in the cleaned graph")


if __name__ == "__main__":
    main()
