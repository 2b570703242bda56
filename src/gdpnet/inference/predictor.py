"""A trained model applied to one graph: prepare and select once, then answer many questions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from gdpnet._core.random import Key
from gdpnet.data.graph import Graph, Part
from gdpnet.data.link_split import check_mutual, split_links
from gdpnet.data.node_numbers import node_numbers, pair_numbers
from gdpnet.data.prepare import Prepared, prepare, prepare_part
from gdpnet.data.validation import UNKNOWN
from gdpnet.errors import ConfigError, GraphError
from gdpnet.inference.classification_metrics import classification_scores
from gdpnet.inference.denoised import Denoised, clean_graph
from gdpnet.inference.explain import Explainer, Explanation
from gdpnet.inference.genuine import evidence_in, genuine_of
from gdpnet.inference.model import TrainedModel
from gdpnet.inference.select import PartDecisions, Selected, select, with_neighbours
from gdpnet.inference.unsupervised import (
    cluster_scores,
    embed_links,
    link_chances,
    link_scores,
    propagated_features,
)
from gdpnet.representation.tasks import Classification


class Predictor:
    """Answers questions about one graph. The policy decides on its edges once, when the first answer needs it.

    Use `gdpnet.inference.predictors.make_predictor`, or `GDPNet.predictor`, to get the one for a model's task.
    """

    def __init__(self, model: TrainedModel, graph: Graph, part: Part | None = None) -> None:
        self.model, self.given, self.graph, self.part = model, graph, model.matched(graph), part
        self._selected: Selected | None = None
        self._explainer: Explainer | None = None
        self._evidence: Tensor | None = None

    @cached_property
    def prepared(self) -> Prepared:
        """Return the graph on the model's device, with the features that the model reads."""
        graph, config, device = self.model.as_read(self.graph), self.model.config, self.model.device
        return (
            prepare(graph, config, device)
            if self.part is None
            else prepare_part(graph, self.part, config, device)
        )

    def select(self, targets: Int[Tensor, "asked"] | None = None) -> Selected:
        """Decide on the edges of some nodes, all by default; decisions that were made before are returned again.

        If a later question needs nodes that were not decided on, all nodes are, so that no third decision follows.
        """
        model, everyone = self.model, torch.arange(self.graph.num_nodes, device=self.model.device)
        if self.part is not None:  # the others are there for these
            everyone = self.part.deciding.to(model.device)
        asked = everyone if targets is None else torch.unique(targets)
        if self._selected is not None:
            first = self.prepared.row_ptr[asked][self.prepared.row_ptr.diff()[asked] > 0]
            if bool(self._selected.decided[first].all()):
                return self._selected
            asked = everyone  # a second question about other nodes: decide on all of them for good
        policy, aggregators = model.networks.policy, model.networks.aggregators
        key = Key.of(model.seed).fold_in("predict")
        self._selected = select(policy, aggregators, self.prepared, asked, model.config, key)
        return self._selected

    def keep_probability(self, *, symmetric: bool = True) -> Float[Tensor, "edges"]:
        """Return the keep probability of every edge, averaged over both directions if symmetric."""
        if not isinstance(symmetric, bool | np.bool_ | int):
            raise ConfigError(f"symmetric must be true or false, found {type(symmetric).__name__}")
        selected = self.select()
        found = selected.prepared.symmetrise(selected.probability) if symmetric else selected.probability
        return selected.prepared.on_edges(found).cpu()

    def denoise(self, *, threshold: float | None = None, symmetric: bool = True) -> Denoised:
        """Return the cleaned graph; see `GDPNet.denoise`."""
        least, reason = self.model.cleaning_threshold(threshold)
        probability = self.keep_probability(symmetric=symmetric)
        chosen, genuine = threshold is None, self.genuine_probability()
        few = self.model.config.threshold.min_kept
        return clean_graph(
            self.given, probability, least, reason, chosen=chosen, genuine=genuine, min_kept=few
        )

    def genuine_probability(self, nodes: Int[Tensor, "asked"] | None = None) -> Float[Tensor, "edges"] | None:
        """Return the probability that every edge is genuine; None if the model has no evidence of it.

        If only some nodes are to decide, it is right for the edges between these.
        """
        found = self._genuine(self.select(nodes))
        return None if found is None else found.cpu()

    def _genuine(self, selected: Selected) -> Float[Tensor, "edges"] | None:
        """Return the same, given decisions; right for edges that both of their nodes have decided on."""
        nodes = edges = None
        if self.part is not None:  # edges that nobody decided on are there for the others
            edges = selected.decided.nonzero().flatten().cpu()
            nodes = torch.unique(self.graph.target[edges]).to(self.model.device)
        if self._evidence is None or self.part is not None:
            self._evidence = evidence_in(self.model.networks, self.prepared, self.model.config, edges)
        if self._evidence is None:
            return None
        ends, mode = (self.graph.target, self.graph.neighbour), self.model.config.inference.mode
        return genuine_of(self.model.networks, selected, self._evidence, ends, mode, nodes)

    def explain(self, node: int | str) -> Explanation:
        """Return the decisions on a node's neighbours and their contributions; the node is named by its id."""
        return next(
            self._explain(torch.tensor([self.graph.node_number(str(node))], device=self.model.device))
        )

    def explain_nodes(self, nodes: Any = None) -> Iterator[Explanation]:
        """Explain some nodes, all by default, one after the other; they are evaluated many at a time."""
        return self._explain(self._numbers(nodes))

    def _explain(self, asked: Int[Tensor, "asked"]) -> Iterator[Explanation]:
        selected = self._select_around(with_neighbours(self.prepared, asked))
        if self._explainer is None or self._explainer.selected is not selected:
            self._explainer = Explainer(self.model, selected, self.graph, self._genuine(selected))
        return self._explainer.explain(asked)

    def _select_around(self, nodes: Int[Tensor, "asked"]) -> Selected:
        """Decide on the edges of all nodes that have a part in the prediction of some nodes."""
        return self.select(self.model.ensemble.receptive_field(self.prepared, nodes))

    def _numbers(self, nodes: Any) -> Int[Tensor, "*asked"]:
        """Return node numbers on the model's device, all nodes if none are named."""
        found = node_numbers(self.graph, nodes)
        if found.dim() > 1:
            raise GraphError(
                f"nodes must be one row of ids or numbers, found an array of shape {tuple(found.shape)}"
            )
        return found.reshape(-1).to(self.model.device)

    def embeddings(self, nodes: Any = None) -> np.ndarray:
        """Return the embeddings of some nodes, all by default."""
        return self._embed(self._numbers(nodes)).cpu().numpy()

    def _embed(self, asked: Int[Tensor, "asked"]) -> Float[Tensor, "asked width"]:
        """Return the embeddings of some nodes by the aggregators."""
        selected, model = self.select(asked), self.model
        weight = selected.weight(model.config.inference.mode)
        return model.ensemble.local(selected.prepared, asked, weight)[0]

    def predict(self, nodes: Any = None) -> np.ndarray:
        """Return the predictions of some nodes, all by default."""
        raise self._refusal("predictions of nodes")

    def probabilities(self, nodes: Any = None) -> np.ndarray:
        """Return the class probabilities of some nodes, columns in the order of the model's classes."""
        raise self._refusal("class probabilities")

    def link_probabilities(self, ends: Any) -> np.ndarray:
        """Return the probability that each pair of nodes is linked; pairs are two rows or a list of tuples."""
        kind = self.model.config.task.kind
        raise ConfigError(f"links are predicted by a model of task links, found {kind}")

    def score(self, split: str = "test") -> float:
        """Return the task's quality on the labelled nodes of a split, micro-F1 for classes."""
        raise self._refusal("score on a split")

    def evaluate(self, split: str = "test") -> dict[str, Any]:
        """Return the metrics of the task, on a split if it has labels."""
        nodes = int(self.graph.nodes_in(split).numel())
        return {"split": split, "nodes": nodes, "micro_f1": self.score(split)}

    def _refusal(self, what: str) -> ConfigError:
        return ConfigError(
            f"a model of task {self.model.config.task.kind} learned no labels and has no {what}"
        )


class LabelPredictor(Predictor):
    """Predicts one class per node, or several labels per node."""

    def probabilities(self, nodes: Any = None) -> np.ndarray:
        """Return the class probabilities of some nodes, columns in the order of the model's classes."""
        return self._probabilities(self._numbers(nodes)).cpu().numpy()

    def _probabilities(self, asked: Int[Tensor, "asked"]) -> Float[Tensor, "asked classes"]:
        selected, mode = self._select_around(asked), self.model.config.inference.mode
        return self.model.ensemble.probabilities(selected, asked, mode)

    def probabilities_with(self, asked: Int[Tensor, "asked"], decided: PartDecisions) -> np.ndarray:
        """Return the class probabilities of some nodes, given what is decided on the edges around them."""
        ensemble, mode = self.model.ensemble, self.model.config.inference.mode
        selected = decided.on(self.prepared)
        known = {"gcn": ensemble.gcn_of(selected.prepared, decided.cleaned)[asked]}
        return ensemble.probabilities(selected, asked, mode, known).cpu().numpy()

    def decided(self, asked: Int[Tensor, "asked"]) -> PartDecisions:
        """Return what is decided on all edges, right where it matters for predicting some nodes."""
        ensemble, selected = self.model.ensemble, self._select_around(asked)
        weight = selected.weight(self.model.config.inference.mode)
        return PartDecisions(ensemble.cleaned_weight(selected), weight, selected.prepared.mean_weight)

    def predict(self, nodes: Any = None) -> np.ndarray:
        """Return the most probable class of some nodes, or their labels joined by ``|``."""
        return self.model.named(self.probabilities(nodes))

    def score(self, split: str = "test") -> float:
        """Return the task's quality on the labelled nodes of a split, micro-F1 for classes.

        A class that the model does not know counts as wrong.
        """
        return self.model.task.quality(*self._asked(split))

    def _asked(self, split: str) -> tuple[Float[Tensor, "known classes"], Shaped[Tensor, "known *any"]]:
        """Return the probabilities and the truth of the labelled nodes of a split."""
        nodes = self._labelled(split)
        return self._probabilities(nodes.to(self.model.device)).cpu(), self._truth(nodes)

    def _truth(self, nodes: Int[Tensor, "scored"]) -> Shaped[Tensor, "scored *any"]:
        model = self.model
        by_class = type(model.task) is Classification
        return (model.labels_of(self.graph) if by_class else model.task.truth(self.graph))[nodes]

    def evaluate(self, split: str = "test") -> dict[str, Any]:
        """Return scores on the labelled nodes of a split, each with a bootstrap interval, also by class."""
        nodes, graph, model = self._labelled(split), self.graph, self.model
        about = {"split": split, "nodes": nodes.numel()}
        if type(model.task) is not Classification:
            return about | {"micro_f1": self.score(split)}
        truth, found = self._truth(nodes).numpy(), self.probabilities(nodes)
        strange = graph.labels[nodes].numpy()[truth == UNKNOWN]
        names, counts = np.unique(np.array(graph.class_names, dtype=object)[strange], return_counts=True)
        unknown = {str(name): int(count) for name, count in zip(names, counts, strict=True)}
        scores = classification_scores(found.astype(np.float64), truth, model.classes.tolist())
        return about | ({"unknown_classes": unknown} if unknown else {}) | scores

    def _labelled(self, split: str) -> Int[Tensor, "scored"]:
        nodes = self.graph.nodes_in(split)
        nodes = nodes[self.graph.labelled[nodes]]
        if not nodes.numel():
            raise GraphError(
                f"the graph has no labelled {split} node to score on; gdpnet.with_split(graph) draws one before fit"
            )
        return nodes


class LinksPredictor(Predictor):
    """Embeds nodes so that inner products score pairs."""

    def _embed(self, asked: Int[Tensor, "asked"]) -> Float[Tensor, "asked width"]:
        return self._embedded[asked]

    @cached_property
    def _embedded(self) -> Float[Tensor, "nodes width"]:
        model, link_predictor = self.model, self.model.networks.link_predictor
        assert link_predictor is not None
        selected = self.select()
        weight = selected.prepared.symmetrise(selected.probability)
        weight = weight if model.selects else torch.ones_like(weight)
        return embed_links(link_predictor, self.graph, weight, model.config)

    def link_probabilities(self, ends: Any) -> np.ndarray:
        """Return the probability that each pair of nodes is linked; pairs are two rows or a list of tuples."""
        check_mutual(self.graph)
        pairs = pair_numbers(self.graph, ends).to(self.model.device)
        return link_chances(self._embedded, pairs).cpu().numpy()

    def evaluate(self, split: str = "test") -> dict[str, Any]:
        """Hide one edge in twenty, and score how well the rest predicts them against pairs without an edge.

        On the training graph these are the edges that `fit` held out for validation, unless it was given others. On
        any other graph the model has never seen them.
        """
        found = split_links(self.graph, self.model.seed, test=0.0)
        rest = torch.from_numpy(LinksPredictor(self.model, found.train).embeddings())
        roc_auc, precision = link_scores(rest, found.validation)
        hidden = int(found.validation.linked.sum())
        return {"hidden_links": hidden, "roc_auc": roc_auc, "average_precision": precision}


class ClustersPredictor(Predictor):
    """Assigns each node to the nearest cluster centre."""

    def _embed(self, asked: Int[Tensor, "asked"]) -> Float[Tensor, "asked width"]:
        return self._embedded[asked]

    @cached_property
    def _embedded(self) -> Float[Tensor, "nodes width"]:
        selected, model = self.select(), self.model
        weight = selected.prepared.symmetrise(selected.probability)
        return propagated_features(
            selected.prepared, weight, model.config.propagation, model.networks.encoder
        )

    def predict(self, nodes: Any = None) -> np.ndarray:
        """Return the cluster of some nodes, all by default."""
        centres = self.model.networks.centres
        assert centres is not None
        nearest = torch.cdist(self._embedded[self._numbers(nodes)], centres).argmin(dim=1)
        return self.model.classes[nearest.cpu().numpy()]

    def evaluate(self, split: str = "test") -> dict[str, Any]:
        """Score the agreement of clusters and classes on all nodes of known class."""
        known = (self.graph.labels != UNKNOWN).numpy()
        if not known.any():
            return {"nodes": self.graph.num_nodes}
        cluster = np.searchsorted(np.sort(self.model.classes), self.predict())
        return {"nodes": int(known.sum())} | cluster_scores(self.graph.labels.numpy()[known], cluster[known])

    def _explain(self, asked: Int[Tensor, "asked"]) -> Iterator[Explanation]:
        clusters = self.predict(asked)
        found = zip(super()._explain(asked), clusters, strict=True)
        return (replace(one, cluster=str(cluster)) for one, cluster in found)
