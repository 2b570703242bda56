"""The paper's figures: mean and standard deviation of micro-F1, by dataset and method."""

from __future__ import annotations

DATASETS = ("cora", "pubmed", "dblp", "citeseer")
"""In the paper's order."""

NAMES = {
    "lr": "LR",
    "gat": "GAT",
    "gcn": "GCN",
    "fastgcn": "FastGCN",
    "graphsage": "GraphSAGE",
    "graphsage-sampled": "GraphSAGE (sampled)",
    "gdpnet-ro": "GDPNet-RO",
    "gdpnet": "GDPNet",
    "gdpnet>gcn": "GCN on the cleaned graph",
    "gdpnet>graphsage": "GraphSAGE on the cleaned graph",
}
"""The name of a method in a table."""

Reported = dict[str, tuple[tuple[float, float], ...]]
"""Mean and standard deviation by method, in the order of the datasets."""

TABLE_2: Reported = {
    "lr": ((0.799, 0.0106), (0.871, 0.0082), (0.784, 0.0103), (0.813, 0.0058)),
    "gat": ((0.819, 0.0045), (0.778, 0.0071), (0.736, 0.0082), (0.719, 0.0050)),
    "gcn": ((0.838, 0.0050), (0.826, 0.0022), (0.805, 0.0217), (0.829, 0.0156)),
    "fastgcn": ((0.865, 0.0450), (0.867, 0.0105), (0.774, 0.0041), (0.779, 0.0053)),
    "graphsage": ((0.867, 0.0052), (0.854, 0.0087), (0.803, 0.0128), (0.910, 0.0073)),
    "gdpnet-ro": ((0.879, 0.0214), (0.880, 0.0251), (0.832, 0.0097), (0.952, 0.0115)),
    "gdpnet": ((0.881, 0.0031), (0.893, 0.0057), (0.836, 0.0057), (0.957, 0.0033)),
}

TABLE_3: Reported = {
    "gcn": TABLE_2["gcn"],
    "gdpnet>gcn": ((0.844, 0.0042), (0.838, 0.0037), (0.811, 0.0120), (0.834, 0.0206)),
    "graphsage": TABLE_2["graphsage"],
    "gdpnet>graphsage": ((0.869, 0.0067), (0.865, 0.0057), (0.816, 0.0081), (0.937, 0.0070)),
}


def reported(table: Reported, method: str, dataset: str) -> str:
    """Return the text of one cell in the paper; empty if it has none."""
    if method not in table or dataset not in DATASETS:
        return ""
    mean, deviation = table[method][DATASETS.index(dataset)]
    return f"{mean:.3f} ± {deviation:.3f}"
