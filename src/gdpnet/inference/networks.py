"""All networks of a model as one module."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from gdpnet.config import Config
from gdpnet.data.pair_features import pair_names
from gdpnet.representation.aggregator import Aggregators
from gdpnet.representation.gcn import GCN
from gdpnet.representation.hopwise import HopwiseNetwork
from gdpnet.representation.infomax import Encoder
from gdpnet.representation.propagation import LinkPredictor
from gdpnet.selection.policy import Policy


class Networks(nn.Module):
    """The policy, the aggregators, and the networks that were fitted after them, if any.

    ``state_dict`` names everything that was learned. ``basis`` are the directions that features are projected on,
    and ``centres`` the cluster centres, for the tasks that use them.
    """

    basis: Tensor | None
    centres: Tensor | None

    def __init__(
        self,
        aggregators: Aggregators,
        policy: Policy | None = None,
        *,
        hopwise: HopwiseNetwork | None = None,
        gcn: GCN | None = None,
        link_predictor: LinkPredictor | None = None,
        encoder: Encoder | None = None,
        centres: Tensor | None = None,
        basis: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.aggregators = aggregators
        self.policy = policy
        self.hopwise = hopwise
        self.gcn = gcn
        self.link_predictor = link_predictor
        self.encoder = encoder
        self.register_buffer("centres", centres)
        self.register_buffer("basis", basis)

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


def build_networks(config: Config, tensors: Mapping[str, Tensor], *, exclusive: bool) -> Networks:
    """Build the networks that some tensors belong to, and load them; shapes give the widths."""
    tensors = dict(tensors)
    fold_models, outputs = tensors["aggregators.head_bias"].shape
    networks = Networks(
        Aggregators(
            tensors["aggregators.weight"].shape[0],
            config.representation.width,
            outputs,
            fold_models,
            self_weight=config.representation.self_weight,
            exclusive=exclusive,
        ),
        _policy(config),
        hopwise=_hopwise(config, tensors, exclusive),
        gcn=_gcn(config, tensors, exclusive),
        link_predictor=_link_predictor(config, tensors),
        encoder=Encoder(*tensors["encoder.weight"].shape) if "encoder.weight" in tensors else None,
        centres=tensors.get("centres"),
        basis=tensors.get("basis"),
    )
    if not config.training.selection:  # training keeps a policy beside what it trains; it decides nothing
        tensors = {name: value for name, value in tensors.items() if not name.startswith("policy.")}
    networks.load_state_dict(tensors)
    return networks


def _policy(config: Config) -> Policy | None:
    if not config.training.selection:
        return None
    return make_policy(config, len(pair_names(config.policy.state, config.policy.hops)))


def _hopwise(config: Config, tensors: Mapping[str, Tensor], exclusive: bool) -> HopwiseNetwork | None:
    if "hopwise.weight" not in tensors:
        return None
    hops, features, columns = tensors["hopwise.weight"].shape
    width, classes = config.representation.width, tensors["hopwise.head_bias"].shape[1]
    return HopwiseNetwork(features, width, classes, columns // width, hops, exclusive=exclusive)


def _gcn(config: Config, tensors: Mapping[str, Tensor], exclusive: bool) -> GCN | None:
    if "gcn.weights.0" not in tensors:
        return None
    layers = config.gcn.layers
    features, width = tensors["gcn.weights.0"].shape
    classes = tensors[f"gcn.weights.{layers - 1}"].shape[1]
    return GCN(features, width, classes, layers=layers, exclusive=exclusive)


def _link_predictor(config: Config, tensors: Mapping[str, Tensor]) -> LinkPredictor | None:
    if "link_predictor.weight" not in tensors:
        return None
    features, width = tensors["link_predictor.weight"].shape
    return LinkPredictor(features, width, config.links.length)
