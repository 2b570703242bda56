"""Fit the evidence model: boosted trees learn to tell a graph's own edges from injected random ones.

No label is read. The model is fitted to the graph that is to be cleaned, so that its structure is known as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from gdpnet._core.csr import find_in_rows
from gdpnet._core.progress import stop_if_abandoned
from gdpnet._core.random import Key
from gdpnet.config import Config, EvidenceSettings
from gdpnet.data.graph import Graph
from gdpnet.data.noise.links import add_random_links
from gdpnet.data.pair_features import pairs_between, pairs_of
from gdpnet.data.prepare import Prepared
from gdpnet.data.validation import UNKNOWN
from gdpnet.errors import GraphError
from gdpnet.inference.evidence import EvidencePasses, Links, evidence_of
from gdpnet.representation.evidence import Calibration, EvidenceModel, estimate_noise_share, logit
from gdpnet.representation.trees import BoostedTrees, trees_of

_TINY = 20
"""A graph with fewer edges than this is too small to learn from."""

_MOST_SHIFT, _HALVINGS = 8.0, 40


class FittedEvidence(NamedTuple):
    """What was learned of a graph from its own edges and injected ones."""

    model: EvidenceModel
    score: Float[Tensor, "edges"]
    """The evidence score of every edge of the graph."""


class Perturbed(NamedTuple):
    """A graph with injected edges, and which edges are its own; the tensors are where the links are."""

    links: Links
    own: Bool[Tensor, "edges"]

    @classmethod
    def of(cls, links: Links, before: Links) -> Perturbed:
        """Compare a graph with the one before; edges that it did not have are injected."""
        target, neighbour = links.ends_of(links.everything)
        return cls(links, find_in_rows(before.row_ptr, before.neighbour, target, neighbour) >= 0)

    @property
    def is_mixed(self) -> bool:
        """Return whether there are edges of both kinds."""
        return bool(self.own.any()) and not bool(self.own.all())

    def sample(self, most: int, key: Key) -> Int[Tensor, "some"]:
        """Return the numbers of some random edges and of their reverse edges, all if there are few."""
        count, device = self.own.numel(), self.own.device
        if count <= most:
            return torch.arange(count, device=device)
        some = torch.randperm(count, generator=key.generator())[: most // 2].to(device)
        target, neighbour = self.ends(some)
        reverse = find_in_rows(self.links.row_ptr, self.links.neighbour, neighbour, target)
        return torch.cat([some, reverse[reverse >= 0]]).unique()

    def ends(self, some: Int[Tensor, "some"]) -> tuple[Int[Tensor, "some"], Int[Tensor, "some"]]:
        """Return target and neighbour of some edges."""
        target, neighbour = self.links.ends_of(self.links.everything)
        return target[some], neighbour[some]


def inject(graph: Graph, rate: float, seed: int) -> Graph | None:
    """Return a copy of a graph with random edges added; None if it has nearly all that there can be."""
    try:
        return add_random_links(replace(graph, truth=None), rate, np.random.default_rng(seed))
    except GraphError:
        return None


def perturb(links: Links, rate: float, seed: int) -> Perturbed | None:
    """Inject random edges; features stay as they are. None if no edge can be added."""
    host, nodes, device = torch.device("cpu"), links.num_nodes, links.row_ptr.device
    unknown, bare = torch.full((nodes,), UNKNOWN), torch.zeros(nodes, 0)
    edges = links.row_ptr.to(host), links.neighbour.to(host)
    graph = Graph(*edges, bare, unknown, torch.zeros_like(unknown), np.arange(nodes), ())
    stop_if_abandoned()
    noisy = inject(graph, rate, seed)
    if noisy is None:
        return None
    after = replace(links, row_ptr=noisy.row_ptr.to(device), neighbour=noisy.neighbour.to(device))
    return Perturbed.of(after, links)


def fit_evidence(prepared: Prepared, config: Config, key: Key) -> FittedEvidence | None:
    """Fit both passes to a graph and calibrate them.

    There is none if the graph has few edges, or nearly all there can be.
    Each pass has perturbed graphs of its own: the first one would find the injected edges that it has learned too
    well. One more graph, which no tree was fitted to, calibrates the second pass.
    """
    links, settings = Links.of(prepared, config), config.evidence
    edges = links.neighbour.numel()
    if edges < _TINY:
        return None
    rounds = max(1, min(settings.rounds, -(-settings.rows // edges)))
    keys = [key.fold_in("perturbed", number) for number in range(2 * rounds + 1)]
    graphs = [perturb(links, settings.rate, one.seed32) for one in keys]
    drawn = [one for one in graphs if one is not None and one.is_mixed]
    if len(drawn) < len(graphs):
        return None
    first = _fit_first(drawn[:rounds], settings, key.fold_in("first")).to(prepared.device)
    model = EvidenceModel(first, first).to(prepared.device)
    _fit_second(model, drawn[rounds:-1], settings, key.fold_in("second"))
    some, rows = _second_rows(model, drawn[-1], settings.rows, key.fold_in("last"))
    score = model.second.to_probabilities(rows.to(model.device))[:, 0].to(rows.device)
    score = _mean_of_directions(drawn[-1], some, score)
    calibrate(model.second_calibration, logit(score)[:, None], drawn[-1].own[some], settings)
    return FittedEvidence(model, evidence_of(model, prepared, config))


def _fit_first(graphs: Sequence[Perturbed], settings: EvidenceSettings, key: Key) -> BoostedTrees:
    """Fit the trees of the first pass to edges of some graphs."""
    tables, own = [], []
    for number, one in enumerate(graphs):
        some = one.sample(settings.rows // len(graphs), key.fold_in("sample", number))
        tables.append(pairs_between(one.links.tables(), *one.ends(some)))
        own.append(one.own[some])
    return _fit_trees(tables, own, settings, key)


def _fit_second(
    model: EvidenceModel, graphs: Sequence[Perturbed], settings: EvidenceSettings, key: Key
) -> None:
    """Calibrate the first pass, clean each graph by it, and fit the trees of the second pass."""
    tables, own, most = [], [], settings.rows // len(graphs)
    for number, one in enumerate(graphs):
        stream = key.fold_in("sample", number)
        if number == 0:
            some = one.sample(most, stream)
            columns = pairs_between(one.links.tables(), *one.ends(some))
            score = model.first_score(columns.to(model.device)).to(columns.device)
            score = _mean_of_directions(one, some, score)
            calibrate(model.first_calibration, logit(score)[:, None], one.own[some], settings)
        some, rows = _second_rows(model, one, most, stream)
        tables.append(rows)
        own.append(one.own[some])
    model.second = _fit_trees(tables, own, settings, key).to(model.device)


def _second_rows(
    model: EvidenceModel, one: Perturbed, most: int, key: Key
) -> tuple[Int[Tensor, "some"], Float[Tensor, "some columns"]]:
    """Return some edges of a graph, and what the second pass sees of them once the first has cleaned the graph."""
    stop_if_abandoned()
    everything = one.links.everything
    columns = pairs_of(one.links.tables(), *everything)[0]
    passes = EvidencePasses(model, one.links, lambda _: columns)
    passes.clean(passes.first(everything), [everything])
    assert passes.cleaned is not None
    some = one.sample(most, key)
    return some, torch.cat([columns[some], pairs_between(passes.cleaned, *one.ends(some))], dim=1)


def _mean_of_directions(
    one: Perturbed, some: Int[Tensor, "some"], score: Float[Tensor, "some"]
) -> Float[Tensor, "some"]:
    """Return the mean of the scores of both directions; a sample holds both or neither."""
    whole = score.new_zeros(one.own.numel()).index_copy(0, some, score)
    return one.links.symmetrise(whole, one.links.everything)[some]


def calibrate(
    calibration: Calibration,
    inputs: Float[Tensor, "edges inputs"],
    own: Bool[Tensor, "edges"],
    settings: EvidenceSettings,
) -> None:
    """Fit a logistic regression of own against injected edges, and estimate the share of noise among the own."""
    known = own.cpu().numpy()
    inputs = inputs.to(calibration.weight.device)
    # few inputs and many edges: Newton's method takes a tenth of the time of the default
    model = LogisticRegression(C=1e6, solver="newton-cholesky").fit(inputs.double().cpu().numpy(), known)
    shift = np.log((~known).sum() / known.sum())  # from the odds among these edges to the ratio of densities
    calibration.weight.copy_(torch.from_numpy(model.coef_[0]))
    calibration.bias.fill_(float(model.intercept_[0] + shift))
    bound = estimate_noise_share(calibration.log_ratio(inputs).cpu(), own.cpu())
    calibration.noise_share.fill_(believed_share(bound, settings))


def believed_share(bound: float, settings: EvidenceSettings) -> float:
    """Return the share of noise that is used, given the largest one that scores allow.

    Scores that hardly differ between own and injected edges allow nearly any share. That is far more often due to
    the scores than to a graph of noise alone.
    """
    return bound if bound <= settings.max_noise else settings.unknown_noise


@torch.no_grad()
def match_share(calibration: Calibration, inputs: Float[Tensor, "edges inputs"]) -> None:
    """Shift a calibration so that the mean over a graph's own edges is one less the share of noise.

    It was fitted to a copy with injected edges, where nodes have more neighbours; in a dense graph scores depend on
    how many.
    """
    noise = float(calibration.noise_share)
    if noise == 0.0 or len(inputs) == 0:
        return
    start = float(calibration.bias)
    low, high = start - _MOST_SHIFT, start + _MOST_SHIFT
    for _ in range(_HALVINGS):
        calibration.bias.fill_((low + high) / 2)
        mean = calibration(inputs).cpu().numpy().mean(dtype=np.float64)
        low, high = (float(calibration.bias), high) if mean < 1.0 - noise else (low, float(calibration.bias))


def _fit_trees(
    tables: Sequence[Float[Tensor, "_ columns"]],
    own: Sequence[Bool[Tensor, "_"]],
    settings: EvidenceSettings,
    key: Key,
) -> BoostedTrees:
    stop_if_abandoned()
    model = HistGradientBoostingClassifier(
        max_iter=settings.trees_per_pass,
        learning_rate=settings.learning_rate,
        max_leaf_nodes=settings.leaves,
        l2_regularization=1.0,
        early_stopping=False,
        random_state=key.seed32,
    )
    rows, known = torch.cat(list(tables)).cpu().numpy(), torch.cat(list(own)).cpu().numpy()
    return BoostedTrees(trees_of([[(model.fit(rows, known), np.array([0]))]], 1), exclusive=False)
