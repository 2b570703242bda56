"""The wheel: installed into a new environment, it runs from outside the checkout."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

TRAIN = """
from gdpnet import GDPNet, synthetic_graph
from gdpnet.data.datasets.synthetic import SyntheticSettings
graph = synthetic_graph(SyntheticSettings(nodes=60, classes=3, words=300), seed=0)
model = GDPNet(device="cpu").set_params(training__epochs=1, training__warmup=1, representation__width=8)
print(model.fit(graph).predict(graph).shape)
"""

RENDER = """
from gdpnet.web.explorer.page import render_page
print(len(render_page(None)))
"""


def run(*words: object, cwd: Path) -> str:
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [str(word) for word in words]
    answer = subprocess.run(command, cwd=cwd, env=clean, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


@pytest.mark.slow
def test_the_wheel_installs_and_trains_outside_the_checkout(tmp_path):
    source, wheels, place = (tmp_path / name for name in ("source", "wheels", "environment"))
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("*.egg-info", "__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    run(
        *(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", wheels, source),
        cwd=tmp_path,
    )
    (wheel,) = wheels.glob("gdpnet-*.whl")
    venv.create(place, with_pip=False)
    python = place / "bin" / "python"
    run(
        sys.executable,
        "-m",
        "pip",
        "--python",
        python,
        "install",
        "--quiet",
        "--no-deps",
        wheel,
        cwd=tmp_path,
    )
    # dependencies come from the environment of the tests; a path file does not bring its editable install
    (site,) = (place / "lib").glob("python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    where = run(python, "-c", "import gdpnet; print(gdpnet.__file__)", cwd=tmp_path).strip()
    assert Path(where).is_relative_to(place)
    version = run(python, "-c", "import gdpnet; print(gdpnet.__version__)", cwd=tmp_path).strip()
    assert run(place / "bin" / "gdpnet", "--version", cwd=tmp_path) == f"gdpnet {version}\n"
    assert run(python, "-c", TRAIN, cwd=tmp_path) == "(60,)\n"
    assert int(run(python, "-c", RENDER, cwd=tmp_path)) > 400_000  # the libraries of the page are in it


def test_the_checksums_are_of_the_versions_that_are_pinned():
    pinned = dict(re.findall(r"(?m)^([a-z0-9-]+)==(\S+)", (ROOT / "constraints.txt").read_text()))
    del pinned["torch"]  # its builds are different files
    hashed = [line for line in (ROOT / "constraints-hashes.txt").read_text().splitlines() if line[0] != "#"]
    found = [re.fullmatch(r"([a-z0-9-]+)==(\S+) --hash=sha256:[0-9a-f]{64}", line) for line in hashed]
    versions = {one[1]: one[2] for one in found if one}
    assert len(versions) == len(hashed)
    assert pinned.items() <= versions.items()
