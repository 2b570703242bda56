"""All networks of a model as one module."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from gdpnet.config import Config
from gdpnet.data.pair_features import pair_names
from gdpnet.representation.aggregator import Aggregators, HopwiseNetwork
from gdpnet.representation.all_edges import AllEdgesNetwork, SharedNetwork
from gdpnet.representation.evidence import Calibration, EvidenceModel
from gdpnet.representation.gcn import GCN
from gdpnet.representation.linear import LinearModels
from gdpnet.representation.propagation import Encoder, LinkPredictor
from gdpnet.representation.trees import BoostedTrees
from gdpnet.selection.policy import Policy


class Networks(nn.Module):
    """The policy, the aggregators, and the networks that were fitted after them, if any.

    ``state_dict`` names everything that was learned. ``basis`` are the directions that features are projected on,
    and ``centres`` the cluster centres, for the tasks that use them.
    """

    basis: Tensor | None
    centres: Tensor | None

    def __init__(self, aggregators: Aggregators) -> None:
        super().__init__()
        self.aggregators = aggregators
        self.policy: Policy | None = None
        self.hopwise: HopwiseNetwork | None = None
        self.gcn: GCN | None = None
        self.all_edges: AllEdgesNetwork | SharedNetwork | None = None
        self.trees: BoostedTrees | None = None
        self.linear: LinearModels | None = None
        self.link_predictor: LinkPredictor | None = None
        self.encoder: Encoder | None = None
        self.evidence: EvidenceModel | None = None
        self.genuine: Calibration | None = None
        self.register_buffer("centres", None)
        self.register_buffer("basis", None)

    @property
    def device(self) -> torch.device:
        """Return the device that the weights are on."""
        return self.aggregators.bias.device

    def tensors(self) -> dict[str, Tensor]:
        """Return everything that was learned, on the host."""
        return {name: value.detach().cpu().contiguous() for name, value in self.state_dict().items()}


def make_policy(config: Config, pairs: int) -> Policy:
    """Make a policy of the configured shape, its weights not yet drawn."""
    extras = config.policy.state != "paper"
    return Policy(config.representation.width, pairs, config.policy.hidden, extras=extras)


def build_networks(
    config: Config, tensors: Mapping[str, Tensor], *, exclusive: bool, edge_columns: int = 0
) -> Networks:
    """Build the networks that some tensors belong to, and load them; shapes give the widths.

    The policy observes the pair features of the settings and ``edge_columns`` features of the edges themselves.
    """
    width, selects = config.representation.width, config.training.selection
    fold_models, outputs = tensors["aggregators.head_bias"].shape
    features, own = tensors["aggregators.weight"].shape[0], config.representation.self_weight
    aggregators = Aggregators(features, width, outputs, fold_models, self_weight=own, exclusive=exclusive)
    networks = Networks(aggregators)
    networks.centres, networks.basis = tensors.get("centres"), tensors.get("basis")
    if selects:
        pairs = edge_columns + len(pair_names(config.policy.state, config.policy.hops))
        networks.policy = make_policy(config, pairs)
    if "hopwise.weight" in tensors:
        hops, features, _ = tensors["hopwise.weight"].shape
        folds, classes = tensors["hopwise.head_bias"].shape
        networks.hopwise = HopwiseNetwork(features, width, classes, folds, hops, exclusive=exclusive)
    if "gcn.weights.0" in tensors:
        features, hidden = tensors["gcn.weights.0"].shape
        layers = config.gcn.layers
        classes = tensors[f"gcn.weights.{layers - 1}"].shape[1]
        networks.gcn = GCN(features, hidden, classes, layers=layers, exclusive=exclusive)
    if "all_edges.weight" in tensors:
        folds, hidden, classes = tensors["all_edges.head_weight"].shape
        features = tensors["all_edges.weight"].shape[0]
        kind = AllEdgesNetwork if "all_edges.next_weight" in tensors else SharedNetwork
        networks.all_edges = kind(features, hidden, classes, folds, exclusive=exclusive)
    if "linear.weight" in tensors:
        folds, features, classes = tensors["linear.weight"].shape
        networks.linear = LinearModels(features, classes, folds, exclusive=exclusive)
    if "trees.root" in tensors:
        networks.trees = BoostedTrees(_under("trees.", tensors), exclusive=exclusive)
    if "evidence.first.root" in tensors:
        passes = (
            BoostedTrees(_under(f"evidence.{name}.", tensors), exclusive=False)
            for name in ("first", "second")
        )
        networks.evidence = EvidenceModel(*passes)
    if "genuine.weight" in tensors:
        networks.genuine = Calibration(tensors["genuine.weight"].numel())
    if "link_predictor.weight" in tensors:
        features, hidden = tensors["link_predictor.weight"].shape
        networks.link_predictor = LinkPredictor(features, hidden, config.links.length)
    if "encoder.weight" in tensors:
        networks.encoder = Encoder(*tensors["encoder.weight"].shape)
    # without selection training keeps a policy beside what it trains; it decides nothing
    networks.load_state_dict(
        {name: value for name, value in tensors.items() if selects or not name.startswith("policy.")}
    )
    return networks


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors of one network by their names in it."""
    return {name.removeprefix(prefix): one for name, one in tensors.items() if name.startswith(prefix)}
