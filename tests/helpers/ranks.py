"""Start processes that train together, as torchrun does."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parents[1]


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def environment(**more: str) -> dict[str, str]:
    """Return this environment with one thread per process, and the helpers of the tests."""
    known = {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(HERE), "GDPNET_CACHE": ""}
    return os.environ | {name: value for name, value in known.items() if value} | more


def run_ranks(script: Path, size: int, out: Path) -> list[dict[str, Any]]:
    """Run a script as some ranks; return the record that each writes to the file that it is given."""
    port, running = free_port(), []
    for rank in range(size):
        more = {"RANK": rank, "WORLD_SIZE": size, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        env = environment(**{name: str(value) for name, value in more.items()})
        words = [sys.executable, str(script), str(out / f"{rank}.json")]
        running.append(subprocess.Popen(words, env=env, stderr=subprocess.PIPE, text=True))
    for process in running:
        said = process.communicate(timeout=300)[1]
        assert process.returncode == 0, said
    return [json.loads((out / f"{rank}.json").read_text()) for rank in range(size)]


def torchrun(
    *words: object, restarts: int = 0, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess:
    """Run a command by torchrun with two ranks."""
    asked = ["--standalone", "--nproc-per-node", "2", "--max-restarts", str(restarts)]
    return subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", *asked, *map(str, words)],
        env=environment(**(env or {})),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
