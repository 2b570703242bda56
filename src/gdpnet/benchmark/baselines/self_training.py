"""Self-training: a method is fitted again in rounds, with its own confident predictions as labels.

Candidates are the unlabelled nodes of the training graph: context nodes and, in a transductive graph, test nodes.
Validation nodes are none of them, so that validation never scores what was learned from its own predictions.
No label but those of training nodes is read; predictions stand for all others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gdpnet._core.progress import part
from gdpnet.benchmark.baselines.fitting import Fitted, Run, Settings, Task
from gdpnet.data.graph import Graph
from gdpnet.errors import ConfigError


@dataclass(frozen=True)
class SelfTrainingSettings(Settings):
    """Hyper-parameters of a network and of its pseudo-labels."""

    pseudo_shares: Sequence[float] = (0.5, 0.8)
    """Share of the unlabelled nodes that get a pseudo-label, one per round."""
    pseudo_weight: float = 0.5
    """Weight of a pseudo-label in the loss; a label weighs one."""
    pseudo_balanced: bool = False
    """Whether the share is taken of each predicted class, not of all unlabelled nodes together."""

    def __post_init__(self) -> None:
        """Check shares and weight."""
        super().__post_init__()
        object.__setattr__(self, "pseudo_shares", tuple(self.pseudo_shares))  # a list in records
        if not all(0.0 < share <= 1.0 for share in self.pseudo_shares):
            raise ConfigError(f"pseudo_shares must lie above 0 and up to 1, found {list(self.pseudo_shares)}")
        if self.pseudo_weight <= 0.0:
            raise ConfigError(f"pseudo_weight must be above 0, found {self.pseudo_weight}")

    @classmethod
    def of(cls, settings: Settings) -> SelfTrainingSettings:
        """Return the settings of a network with the usual ones of self-training, if they name none."""
        return settings if isinstance(settings, cls) else cls(**vars(settings))


def self_trained(base: Run) -> Run:
    """Wrap a method: fit it, label confident nodes by its predictions, and fit it again, once per round.

    Each round labels a share of the candidates anew, by the latest predictions.
    The last round is returned, or an earlier fit that is better on validation.
    """

    def run(task: Task, seed: int, device: torch.device, settings: Settings) -> Fitted:
        own = SelfTrainingSettings.of(settings)
        candidates, parts = unlabelled(task), 1 + len(own.pseudo_shares)
        with part(0, parts):
            last = best = base(task, seed, device, settings)
        rounds = labelled = 0
        for number, share in enumerate(own.pseudo_shares, start=1):
            nodes, classes = confident(probabilities(last, task), candidates, share, own.pseudo_balanced)
            if nodes.numel() == 0:
                break
            more = with_pseudo_labels(task, nodes, classes, own.pseudo_weight)
            with part(number, parts):
                last = base(more, seed, device, settings)
            if not last.validation_f1 < best.validation_f1:
                best, rounds, labelled = last, number, nodes.numel()
        return replace(best, chosen=best.chosen | {"rounds": rounds, "pseudo_labels": labelled})

    return run


def unlabelled(task: Task) -> Int[Tensor, "candidates"]:
    """Return the nodes that may get a pseudo-label, as indices into the training graph."""
    free = torch.ones(task.whole.num_nodes, dtype=torch.bool)
    free[task.seen[task.targets]] = False
    free[task.validation] = False
    return free[task.seen].nonzero().flatten()


def probabilities(fitted: Fitted, task: Task) -> Float[Tensor, "seen classes"]:
    """Return the class probabilities of the nodes of the training graph, read on that graph where a method can."""
    logits = fitted.logits[task.seen] if fitted.seen_logits is None else fitted.seen_logits
    return logits.softmax(dim=1)


def confident(
    probability: Float[Tensor, "seen classes"],
    candidates: Int[Tensor, "candidates"],
    share: float,
    balanced: bool = False,
) -> tuple[Int[Tensor, "chosen"], Int[Tensor, "chosen"]]:
    """Return the most confident share of the candidates, of all or of each predicted class, and their classes."""
    confidence, predicted = probability[candidates].max(dim=1)
    order = confidence.argsort(descending=True, stable=True)
    if not balanced:
        chosen = order[: round(share * order.numel())]
    else:
        groups = (order[predicted[order] == value] for value in predicted.unique())
        chosen = torch.cat([order[:0], *(group[: round(share * group.numel())] for group in groups)])
    chosen = chosen.sort().values
    return candidates[chosen], predicted[chosen]


def with_pseudo_labels(
    task: Task, nodes: Int[Tensor, "labelled"], classes: Int[Tensor, "labelled"], weight: float = 1.0
) -> Task:
    """Return the task with more targets: nodes of the training graph that count as members of some classes."""

    def labelled(graph: Graph, place: Tensor) -> Graph:
        labels = graph.labels.clone()
        labels[place] = classes
        return replace(graph, labels=labels)

    own = torch.ones(task.targets.numel()) if task.weight is None else task.weight
    return replace(
        task,
        train=labelled(task.train, nodes),
        whole=labelled(task.whole, task.seen[nodes]),
        targets=torch.cat([task.targets, nodes]),
        weight=torch.cat([own, torch.full((nodes.numel(),), float(weight))]),
        origin=task.origin or task,
    )
