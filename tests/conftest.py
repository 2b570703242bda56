"""Settings of every test run."""

import torch
from jaxtyping import install_import_hook

# the tensors of tests are small, and two threads on them cost more than they give
torch.set_num_threads(1)

# shapes and types that annotations name are checked wherever tests go
install_import_hook(
    [
        f"gdpnet.{room}"
        for room in (
            "ragged",
            "graph",
            *(
                f"selection.{module}"  # all but the kernel, which is not Python
                for module in (
                    "draws",
                    "episodes",
                    "fused",
                    "play",
                    "policy",
                    "ppo",
                    "rewards",
                    "rollout",
                    "stepwise",
                    "update",
                )
            ),
            "representation",
            "prepared",
            "sight",
            "inference",
            "earning",
            "training",
            "envs",
            "threshold",
        )
    ],
    "beartype.beartype",
)
