"""A task of a Ray worker that kills its worker once."""

import os
import signal
from collections.abc import Callable
from pathlib import Path


def dying(flag: Path) -> Callable:
    """Return a task whose worker is killed in the middle of a pass, once."""

    def run(folder: str, token: str, device: str, name: str, number: int) -> tuple:
        from gdpnet.inference.engines.on_ray import _work

        if name == "decide" and number == 2 and not flag.exists():
            flag.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return _work(folder, token, device, name, number)

    return run
