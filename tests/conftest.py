"""Settings of every test run."""

import os
from pathlib import Path

# tests run side by side: a thread that waits must not spin; torch reads this when it is imported
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import torch
from jaxtyping import install_import_hook

import helpers.typechecking  # noqa: F401 - the import hook looks it up by name

# without a GPU Triton's kernels run in its interpreter, which must be known before anything imports Triton
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"

# the tensors of tests are small, and two threads on them cost more than they give
torch.set_num_threads(1)

SOURCE = Path(__file__).parents[1] / "src"


def _checked_modules() -> list[str]:
    """Return every module whose annotations are checked.

    Left out are functions that numba or Triton compiles, and `gdpnet.config`, which is handed what users write and
    checks it itself.
    """
    compiled = ("kernel", "numba_products", "numba_update_products")
    return [
        ".".join(path.relative_to(SOURCE).with_suffix("").parts)
        for path in sorted((SOURCE / "gdpnet").rglob("*.py"))
        if path.stem not in ("__init__", "__main__", "config") and not path.stem.endswith(compiled)
    ]


# shapes and types that annotations name are checked wherever tests go
install_import_hook(_checked_modules(), "helpers.typechecking.check")
