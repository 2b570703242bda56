"""Settings of every test run."""

import os

import torch
from jaxtyping import install_import_hook

# without a GPU Triton's kernels run in its interpreter, which must be known before anything imports Triton
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"

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
                f"selection.{module}"  # all but what is compiled, which is not Python
                for module in (
                    "compiled",
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
