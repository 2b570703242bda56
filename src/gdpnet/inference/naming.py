"""What is explained about a node, and how it is called: the probability of a class or label, or a number."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from gdpnet.data.graph import Graph
from gdpnet.data.validation import UNKNOWN
from gdpnet.inference.explanation import decimals_of
from gdpnet.inference.model import TrainedModel
from gdpnet.representation.regression import Regression


class Naming:
    """Names predictions and labels of one graph as a model's task does."""

    def __init__(self, model: TrainedModel, graph: Graph) -> None:
        self.model, self.graph = model, graph
        self.numbers = model.task if isinstance(model.task, Regression) else None
        """The task if numbers are predicted, else None."""

    def measure(self, found: Float[Tensor, "n classes"]) -> Float[Tensor, "n classes"]:
        """Return by what probabilities are multiplied to give what is explained.

        One for the likeliest class, zero for the others; or the centres of the bins, whose mean is predicted.
        """
        if self.numbers is not None:
            centres = torch.tensor(self.numbers.centres, dtype=torch.double, device=found.device)
            return centres.float().double().expand(found.shape)
        return F.one_hot(found.argmax(dim=1), found.shape[1]).double()

    def predicted(self, found: Float[Tensor, "n classes"]) -> list[str]:
        """Return the predictions as text: classes, labels joined by ``|``, or numbers."""
        if self.numbers is not None:
            return [number_text(one) for one in self.numbers.mean(found).tolist()]
        return self.model.named(found.cpu().numpy()).astype(str).tolist()

    def explained(self, found: Float[Tensor, "n classes"]) -> list[str]:
        """Return the classes whose probability is explained; none if numbers are predicted."""
        if self.numbers is not None:
            return [""] * found.shape[0]
        return self.model.classes[found.argmax(dim=1).cpu().numpy()].astype(str).tolist()

    def amounts(self, values: Float[Tensor, "n"], suffix: str = "") -> dict[str, list[Any]]:
        """Return values of what is explained under its name, `probability` or `prediction`; the other is None."""
        names = ("probability", "prediction")
        mine, other = reversed(names) if self.numbers is not None else names
        return {mine + suffix: values.tolist(), other + suffix: [None] * values.numel()}

    def labels(self, nodes: Int[Tensor, "n"]) -> list[str | None]:
        """Return the known classes or numbers of some nodes as text, None where they are not known."""
        nodes, targets = nodes.cpu(), self.graph.targets
        if self.numbers is not None and targets is not None:
            return [None if math.isnan(one) else number_text(one) for one in targets[nodes].tolist()]
        known, names = self.graph.labels[nodes].tolist(), self.graph.class_names
        return [None if label == UNKNOWN else str(names[label]) for label in known]


def number_text(number: float) -> str:
    """Return a number with about five digits, without zeros at its end."""
    text = f"{number:z.{decimals_of(number)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
