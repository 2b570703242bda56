"""What can be said of an edge before any learning: how alike its two nodes are, and how the graph sees them.

Everything here is label-free and leaves the edge itself out, so it means the same on an unseen graph.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from gdpnet.graph.features import Features, SparseRows, normalise
from gdpnet.graph.graph import Graph
from gdpnet.ragged import ranges

PAIR_NAMES = {
    "paper": (),
    "pairs": ("feature cosine",),
    "structure": (
        "feature cosine",
        "common neighbours",
        "Adamic-Adar",
        "target to neighbour's circle",
        "neighbour to target's circle",
        "circle to circle",
        "target degree",
        "neighbour degree",
    ),
}
PAIR_NAMES["circles"] = (
    *PAIR_NAMES["structure"],
    "circles' classes agree",
    "circles' embeddings agree",
    "target's circle is sure",
)
"""The columns of `pair_features`, by the policy's `state` setting.

The last three depend on what was learned and on what the nodes around have selected: they are zero here and are
filled in when a neighbour is met.
"""

LEARNED_PAIRS = 3

_CHUNK = 1 << 20


def pair_features(graph: Graph, state: str) -> Float[Tensor, "edges pairs"]:
    """Return one row an edge, with the columns that `PAIR_NAMES` gives for this state."""
    if state == "paper":
        return torch.zeros(graph.num_edges, 0)
    features = normalise(graph.features, "l2")
    target = graph.target
    cosine = _row_dots(features, target, features, graph.neighbour)
    if state == "pairs":
        return cosine[:, None]
    common, adamic_adar = _common_neighbours(graph)
    to_neighbour, to_target, circles = _circle_cosines(graph, features, cosine)
    degree = graph.degree.float()
    columns = [
        cosine,
        common.log1p(),
        adamic_adar.log1p(),
        to_neighbour,
        to_target,
        circles,
        degree[target].log1p(),
        degree[graph.neighbour].log1p(),
    ]
    if state == "circles":
        columns += [torch.zeros_like(cosine)] * LEARNED_PAIRS
    return torch.stack(columns, dim=1)


def _circle_cosines(
    graph: Graph, features: Features, cosine: Float[Tensor, "edges"]
) -> tuple[Float[Tensor, "edges"], Float[Tensor, "edges"], Float[Tensor, "edges"]]:
    """Compare each node of an edge, and its circle, with the other's circle: its neighbours but for this one.

    With S_u the sum of the unit features of u's neighbours, v's cosine to u's circle is
    (x_v S_u - x_v x_v) / |S_u - x_v|; only inner products are needed. Where the edge runs one way alone, v is
    not in u's circle and nothing is taken out of it.
    """
    target, neighbour = graph.target, graph.neighbour
    mutual = (graph.reverse >= 0).float()
    circle = _neighbour_sums(graph, features)
    everyone = torch.arange(graph.num_nodes)
    unit = _row_dots(features, everyone, features, everyone)
    length = _row_dots(circle, everyone, circle, everyone)
    near = _row_dots(features, target, circle, neighbour) - mutual * unit[target]
    far = _row_dots(features, neighbour, circle, target) - unit[neighbour]
    near_length = (length[neighbour] - mutual * (2.0 * near + unit[target])).clamp(min=0.0).sqrt()
    far_length = (length[target] - 2.0 * far - unit[neighbour]).clamp(min=0.0).sqrt()
    own_near = _row_dots(features, target, circle, target)
    own_far = _row_dots(features, neighbour, circle, neighbour)
    both = _row_dots(circle, target, circle, neighbour) - own_far + mutual * (cosine - own_near)
    return (
        _ratio(near, near_length),
        _ratio(far, far_length),
        _ratio(both, near_length * far_length),
    )


def _ratio(part: Float[Tensor, "edges"], whole: Float[Tensor, "edges"]) -> Float[Tensor, "edges"]:
    return torch.where(whole > 1e-4, part / whole.clamp(min=1e-4), torch.zeros_like(part)).clamp(-1.0, 1.0)


def _neighbour_sums(graph: Graph, features: Features) -> Features:
    """Add up the feature rows of each node's neighbours."""
    import scipy.sparse as sp

    shape = (graph.num_nodes, graph.num_nodes)
    ones = np.ones(graph.num_edges, dtype=np.float32)
    adjacency = sp.csr_matrix((ones, graph.neighbour.numpy(), graph.row_ptr.numpy()), shape=shape)
    if isinstance(features, SparseRows):
        return SparseRows.from_scipy(adjacency @ features.to_scipy())
    return torch.from_numpy(adjacency @ features.numpy())


def _row_dots(
    left: Features, left_row: Int[Tensor, "edges"], right: Features, right_row: Int[Tensor, "edges"]
) -> Float[Tensor, "edges"]:
    """Return the inner product of ``left[left_row[i]]`` and ``right[right_row[i]]`` for each i."""
    if isinstance(left, SparseRows) and isinstance(right, SparseRows):
        return _sparse_row_dots(left, left_row, right, right_row)
    assert isinstance(left, Tensor)
    assert isinstance(right, Tensor)
    step = max(1, _CHUNK * 4 // max(1, left.shape[1]))
    parts = [
        (left[left_row[start : start + step]] * right[right_row[start : start + step]]).sum(dim=1)
        for start in range(0, left_row.numel(), step)
    ]
    return torch.cat(parts) if parts else torch.zeros(0)


def _sparse_row_dots(
    left: SparseRows, left_row: Int[Tensor, "edges"], right: SparseRows, right_row: Int[Tensor, "edges"]
) -> Float[Tensor, "edges"]:
    """Look up each value of the shorter row among those of the longer, by a search in sorted keys.

    The cost follows the shorter row, so that a hub costs no more than its neighbours do.
    """
    left_length, right_length = left.row_ptr.diff(), right.row_ptr.diff()
    left_keys = (left.row * left.width + left.column).numpy()
    right_keys = (right.row * right.width + right.column).numpy()
    result = np.zeros(left_row.numel(), dtype=np.float32)
    left_is_short = left_length[left_row] <= right_length[right_row]
    for few, few_row, many, many_row, many_keys, chosen in (
        (left, left_row, right, right_row, right_keys, left_is_short),
        (right, right_row, left, left_row, left_keys, ~left_is_short),
    ):
        edges = chosen.nonzero().flatten()
        length = few.row_ptr.diff()[few_row[edges]]
        for part in _parts_of(edges, length):
            _add_matches(result, part, few, few_row, many, many_row, many_keys)
    return torch.from_numpy(result)


def _add_matches(
    result: np.ndarray,
    edges: Int[Tensor, "part"],
    few: SparseRows,
    few_row: Int[Tensor, "edges"],
    many: SparseRows,
    many_row: Int[Tensor, "edges"],
    many_keys: np.ndarray,
) -> None:
    """Add to ``result`` the products of the values that both rows of an edge hold."""
    if many_keys.size == 0:
        return
    row = few_row[edges]
    owner, position = ranges(few.row_ptr[row], few.row_ptr.diff()[row])
    key = (many_row[edges][owner] * many.width + few.column[position]).numpy()
    place = np.searchsorted(many_keys, key).clip(max=many_keys.size - 1)
    product = few.value[position].numpy() * many.value.numpy()[place] * (many_keys[place] == key)
    result[edges.numpy()] += np.bincount(owner.numpy(), weights=product, minlength=edges.numel()).astype(
        np.float32
    )


def _parts_of(edges: Int[Tensor, "edges"], length: Int[Tensor, "edges"]) -> list[Int[Tensor, "part"]]:
    """Cut a list of edges into parts whose rows hold about a million values together."""
    if edges.numel() == 0:
        return []
    part = length.cumsum(0) // _CHUNK
    return list(torch.split(edges, torch.unique_consecutive(part, return_counts=True)[1].tolist()))


def _common_neighbours(graph: Graph) -> tuple[Float[Tensor, "edges"], Float[Tensor, "edges"]]:
    """Count the common neighbours of each edge's nodes, plainly and each by 1 / log of its degree."""
    ones = torch.ones(graph.num_edges)
    adjacency = SparseRows(graph.row_ptr, graph.neighbour, ones, graph.num_nodes)
    weight = 1.0 / graph.degree.float().clamp(min=2.0).log()
    weighted = adjacency.with_value(weight[graph.neighbour])
    target, neighbour = graph.target, graph.neighbour
    common = _sparse_row_dots(adjacency, target, adjacency, neighbour)
    return common, _sparse_row_dots(adjacency, target, weighted, neighbour)
