"""Linear fold models find what scikit-learn's logistic regression finds."""

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from gdpnet.representation.linear import LinearModels
from gdpnet.representation.tasks import CLASSIFICATION


def test_probabilities_are_those_of_logistic_regression_on_standardised_columns():
    rng = np.random.default_rng(0)
    rows = (rng.normal(size=(200, 3)) * [1.0, 5.0, 0.2] + [0.0, 9.0, 1.0]).astype(np.float32)
    rows = np.hstack([rows, np.ones((200, 1), dtype=np.float32)])
    label = (rows[:, 0] + (rows[:, 1] - 9.0) / 5 + rng.normal(size=200) > 0).astype(int) + (rows[:, 2] > 1.2)
    left_out = torch.from_numpy(rng.random(200) < 0.3)
    learns = torch.stack([torch.ones(200, dtype=torch.bool), ~left_out], dim=1)
    models = LinearModels(4, 3, fold_models=2)
    models.fit(torch.from_numpy(rows), torch.from_numpy(label), learns, CLASSIFICATION, 1.0, 200)
    found = models.fold_probabilities(torch.from_numpy(rows)).detach().numpy()
    standard = StandardScaler().fit_transform(rows)
    for place, used in enumerate((np.ones(200, dtype=bool), ~left_out.numpy())):
        # the penalty is relative to the mean loss: as strong for a part of the nodes as for all
        peer = LogisticRegression(C=200 / used.sum(), max_iter=1000).fit(standard[used], label[used])
        np.testing.assert_allclose(found[:, place], peer.predict_proba(standard), atol=2e-2)
