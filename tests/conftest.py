"""Settings of every test run."""

import os
from pathlib import Path

import torch
from jaxtyping import install_import_hook

import helpers.typechecking  # noqa: F401 - the import hook looks it up by name

# without a GPU Triton's kernels run in its interpreter, which must be known before anything imports Triton
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"

# the tensors of tests are small, and two threads on them cost more than they give
torch.set_num_threads(1)

SOURCE = Path(__file__).parents[1] / "src"

UNCHECKED = (
    "gdpnet._core.files",
    "gdpnet._core.threads",
    "gdpnet.benchmark.baselines",
    "gdpnet.training.best_epoch",
    "gdpnet.inference.blocks",
    "gdpnet.cli",
    "gdpnet.data.schema",
    "gdpnet.training.finalise",
    "gdpnet.training.gcn_head",
    "gdpnet.inference.result",
    "gdpnet._core.device",
    "gdpnet.training.label_noise",
    "gdpnet.estimator",
    "gdpnet.benchmark",
    "gdpnet.inference.explain",
    "gdpnet.training.validation",
    "gdpnet.training.links",
    "gdpnet._core.significance",
    "gdpnet.estimator",
    "gdpnet.inference.model_file",
    "gdpnet.inference.networks",
    "gdpnet.data.pair_kernel",
    "gdpnet._core.stopwatch",
    "gdpnet.training.playing",
    "gdpnet.training.hopwise_head",
    "gdpnet.inference.ensemble",
    "gdpnet.training.checkpoint",
    "gdpnet.training.data",
    "gdpnet.selection.engines.numba_layout",
    "gdpnet.selection.engines.triton_shared",
    "gdpnet.selection.buffer",
    "gdpnet.inference.shards",
    "gdpnet.inference.streaming",
    "gdpnet.inference.summary",
    "gdpnet.transform",
    "gdpnet.training.unsupervised",
)
"""Rooms and modules whose annotations are not checked yet."""


def _checked_modules() -> list[str]:
    """Return every module whose annotations are checked.

    Left out are functions that numba or Triton compiles, and `gdpnet.config`, which is handed what users write and
    checks it itself.
    """
    compiled = ("kernel", "native", "lanes", "numba_products")
    names = [
        ".".join(path.relative_to(SOURCE).with_suffix("").parts)
        for path in sorted((SOURCE / "gdpnet").rglob("*.py"))
        if path.stem not in ("__init__", "__main__", "config") and not path.stem.endswith(compiled)
    ]
    return [name for name in names if not any(f"{name}.".startswith(f"{one}.") for one in UNCHECKED)]


# shapes and types that annotations name are checked wherever tests go
install_import_hook(_checked_modules(), "helpers.typechecking.check")
