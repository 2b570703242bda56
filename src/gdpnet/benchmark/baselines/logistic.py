"""Logistic regression on node features; the graph is ignored."""

from __future__ import annotations

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression

from gdpnet.benchmark.baselines.fitting import Fitted, Settings, Task
from gdpnet.data.features import normalise, to_numpy

PENALTIES = (0.1, 1.0, 10.0, 100.0)
"""Inverse penalties, tried on validation; of equals the smallest is taken."""


def logistic(task: Task, seed: int, device: torch.device, settings: Settings) -> Fitted:
    """Fit logistic regression, which uses neither the seed nor the settings; the penalty is chosen."""
    graph, train, validation = task.whole, task.seen[task.targets].numpy(), task.validation.numpy()
    table, label = to_numpy(normalise(graph.features, "l2")), graph.labels.numpy()
    # some BLAS raise the flag on finite numbers; scikit-learn refuses all others
    with np.errstate(invalid="ignore"):
        models = [
            LogisticRegression(C=penalty, max_iter=2000).fit(table[train], label[train])
            for penalty in PENALTIES
        ]
    known = validation.size > 0
    scores = [model.score(table[validation], label[validation]) if known else 0.0 for model in models]
    best = int(np.argmax(scores))
    logits = torch.full((graph.num_nodes, graph.num_classes), float(np.log(np.finfo(np.float32).tiny)))
    found = torch.from_numpy(models[best].predict_log_proba(table)).float()
    logits[:, torch.from_numpy(models[best].classes_)] = found
    score = float(scores[best]) if known else float("nan")
    return Fitted(logits, score, float("nan"), 0, chosen={"inverse_penalty": PENALTIES[best]})
