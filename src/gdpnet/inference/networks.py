"""The networks of a model, built anew from the tensors that were learned."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from gdpnet.config import Config
from gdpnet.data.pair_features import pair_names
from gdpnet.representation.aggregator import Aggregators
from gdpnet.representation.gcn import LAYERS, Convolutions
from gdpnet.representation.hopwise import Reader
from gdpnet.representation.infomax import Encoder
from gdpnet.representation.propagation import Linker
from gdpnet.selection.policy import Policy


@dataclass(frozen=True)
class Networks:
    """What was learned, on its device."""

    policy: Policy | None
    aggregators: Aggregators
    reader: Reader | None
    convolutions: Convolutions | None
    linker: Linker | None
    encoder: Encoder | None
    centres: Tensor | None

    def tensors(self) -> dict[str, Tensor]:
        """Return all that was learned by name, as `build_networks` takes it."""
        named = {
            "aggregators": self.aggregators,
            "policy": self.policy,
            "reader": self.reader,
            "convolutions": self.convolutions,
            "linker": self.linker,
            "encoder": self.encoder,
        }
        found = {
            f"{name}.{key}": value
            for name, network in named.items()
            if network is not None
            for key, value in network.state_dict().items()
        }
        return found if self.centres is None else found | {"centres": self.centres}


def make_policy(config: Config, pairs: int) -> Policy:
    """Make a policy of the configured shape, its weights not yet drawn."""
    extras = config.policy.state != "paper"
    return Policy(config.representation.width, pairs, config.policy.hidden, extras=extras)


def build_networks(
    config: Config, weights: dict[str, Tensor], *, exclusive: bool, device: torch.device
) -> Networks:
    """Build every network that the weights tell of; their shapes say how wide it is."""
    return Networks(
        _policy(config, weights, device) if config.training.selection else None,
        _aggregators(config, weights, exclusive, device),
        _reader(config, tensors_under(weights, "reader."), exclusive, device),
        _convolutions(tensors_under(weights, "convolutions."), exclusive, device),
        _linker(tensors_under(weights, "linker."), device),
        _encoder(tensors_under(weights, "encoder."), device),
        weights["centres"].to(device) if "centres" in weights else None,
    )


def tensors_under(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Return the tensors whose names begin with a prefix, without it."""
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def _policy(config: Config, weights: dict[str, Tensor], device: torch.device) -> Policy:
    policy = make_policy(config, len(pair_names(config.policy.state, config.policy.hops)))
    policy.load_state_dict(tensors_under(weights, "policy."))
    return policy.to(device)


def _aggregators(
    config: Config, weights: dict[str, Tensor], exclusive: bool, device: torch.device
) -> Aggregators:
    members, outputs = weights["aggregators.head_bias"].shape
    aggregators = Aggregators(
        weights["aggregators.weight"].shape[0],
        config.representation.width,
        outputs,
        members,
        self_weight=config.representation.self_weight,
        exclusive=exclusive,
    )
    aggregators.load_state_dict(tensors_under(weights, "aggregators."))
    return aggregators.to(device)


def _reader(
    config: Config, weights: dict[str, Tensor], exclusive: bool, device: torch.device
) -> Reader | None:
    if not weights:
        return None
    rings, features, columns = weights["weight"].shape
    width, classes = config.representation.width, weights["head_bias"].shape[1]
    reader = Reader(features, width, classes, columns // width, rings, exclusive=exclusive)
    reader.load_state_dict({"share": reader.share} | weights)  # older files have none
    return reader.to(device)


def _convolutions(weights: dict[str, Tensor], exclusive: bool, device: torch.device) -> Convolutions | None:
    if not weights:
        return None
    features, width = weights["weights.0"].shape
    classes = weights[f"weights.{LAYERS - 1}"].shape[1]
    convolutions = Convolutions(features, width, classes, exclusive=exclusive)
    convolutions.load_state_dict(weights)
    return convolutions.to(device)


def _linker(weights: dict[str, Tensor], device: torch.device) -> Linker | None:
    if not weights:
        return None
    linker = Linker(*weights["weight"].shape)
    linker.load_state_dict(weights)
    return linker.to(device)


def _encoder(weights: dict[str, Tensor], device: torch.device) -> Encoder | None:
    if not weights:
        return None
    encoder = Encoder(*weights["weight"].shape)
    encoder.load_state_dict(weights)
    return encoder.to(device)
