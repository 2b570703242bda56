"""The Slurm scripts of the page about clusters run, and its manifest has the fields of a RayJob."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from gdpnet.cli import main
from gdpnet.cli.engines import blocks_of
from gdpnet.data.datasets.streamed import GeneratedSettings, generate_store
from gdpnet.data.io.store import open_store
from gdpnet.errors import ConfigError
from gdpnet.inference.engines.engine import Share
from helpers.small import FAST, fitted

PAGE = (Path(__file__).parents[1] / "docs" / "cluster.md").read_text(encoding="utf-8")
ARRAY, SUBMITTED = 2, 5
"""Processes of the array, and how often it is submitted: once more than a model without selection has passes."""


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


SCRIPT, LOOP = blocks("bash")

SBATCH = """#!/bin/bash
# does what sbatch does with a job array whose machines are all free: runs its tasks at a time, and waits
echo "$@" >> submitted
[ "$1" = --parsable ] && shift
case $1 in --dependency=afterany:*) shift ;; esac
script=$1; shift
for task in $(seq 0 $((ARRAY - 1))); do
  SLURM_ARRAY_TASK_ID=$task SLURM_ARRAY_TASK_COUNT=$ARRAY bash "$script" "$@" > "task-$task" 2>&1 &
done
wait
echo $RANDOM
"""


@pytest.fixture
def shared(tmp_path) -> Path:
    """Return a folder as the page has it: a store, and a run with a model."""
    generate_store(GeneratedSettings(400, 4000, 8, classes=3), 0, tmp_path / "big")
    (tmp_path / "runs" / "mine").mkdir(parents=True)
    settings = FAST.with_values({"training": {"selection": False, "epochs": 1, "injected": 0.0}})
    fitted(open_store(tmp_path / "big"), settings).save(tmp_path / "runs" / "mine" / "model.safetensors")
    return tmp_path


@pytest.mark.slow
def test_the_slurm_scripts_clean_a_graph(shared):
    """The scripts run as they stand, but for the folder, smaller blocks, and an sbatch that waits."""
    folder = shared / "work"
    folder.mkdir()
    command = "gdpnet() { " + shlex.quote(sys.executable) + ' -m gdpnet "$@"; }\n'
    (folder / "denoise.sbatch").write_text(command + SCRIPT.replace("/shared", str(shared)))
    (folder / "sbatch").write_text(SBATCH)
    (folder / "sbatch").chmod(0o755)
    environment = os.environ | {"PATH": f"{folder}:{os.environ['PATH']}", "ARRAY": str(ARRAY)}
    loop = LOOP.replace("denoise.sbatch", "denoise.sbatch --shard-edges 900").replace("16", str(SUBMITTED))
    subprocess.run(["bash", "-eu", "-c", loop], cwd=folder, env=environment, check=True)
    said = [(folder / f"task-{task}").read_text() for task in range(ARRAY)]
    assert all("directed edges are kept" in one for one in said), said
    submitted = (folder / "submitted").read_text().splitlines()
    assert all("--dependency=afterany:" in line for line in submitted[1:])
    options = ["--shards", "--low-memory", "--shard-edges", "900", "--quiet"]
    paths = [str(shared / "runs" / "mine"), str(shared / "big"), "--out", str(shared / "whole")]
    assert main(["denoise", *paths, *options]) == 0
    found, expected = (
        {path.name: path.read_bytes() for path in (shared / name).iterdir()} for name in ("cleaned", "whole")
    )
    assert found == expected
    assert len(found) > ARRAY


@pytest.mark.parametrize("script", [SCRIPT, LOOP])
def test_the_scripts_are_sound(script):
    subprocess.run(["bash", "-n"], input=script, text=True, check=True)


RAY_JOB = {
    "spec": {"entrypoint", "shutdownAfterJobFinishes", "rayClusterSpec"},
    "rayClusterSpec": {"rayVersion", "headGroupSpec", "workerGroupSpecs"},
    "headGroupSpec": {"rayStartParams", "template"},
    "workerGroupSpecs": {"groupName", "replicas", "minReplicas", "maxReplicas", "rayStartParams", "template"},
    "containers": {"name", "image", "resources", "volumeMounts"},
}
"""Fields of a RayJob of ray.io/v1 that the manifest uses, by the object that has them."""


def test_the_manifest_has_the_fields_of_a_ray_job():
    (text,) = blocks("yaml")
    job = yaml.safe_load(text)
    assert (job["apiVersion"], job["kind"]) == ("ray.io/v1", "RayJob")
    assert job["metadata"]["name"]
    spec, cluster = job["spec"], job["spec"]["rayClusterSpec"]
    (workers,) = cluster["workerGroupSpecs"]
    pod = workers["template"]["spec"]
    found = {
        "spec": spec,
        "rayClusterSpec": cluster,
        "headGroupSpec": cluster["headGroupSpec"],
        "workerGroupSpecs": workers,
        "containers": pod["containers"][0],
    }
    for name, fields in found.items():
        assert set(fields) <= RAY_JOB[name], name
    for group in (cluster["headGroupSpec"], workers):
        assert all(isinstance(value, str) for value in group["rayStartParams"].values())
    assert workers["minReplicas"] <= workers["replicas"] <= workers["maxReplicas"]
    volumes = {volume["name"] for volume in pod["volumes"]}
    assert {mount["name"] for mount in pod["containers"][0]["volumeMounts"]} <= volumes


def test_the_entrypoint_of_the_manifest_is_a_command(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    (text,) = blocks("yaml")
    _, command, *words = shlex.split(yaml.safe_load(text)["spec"]["entrypoint"])
    assert main([command, "--help"]) == 0
    known = capsys.readouterr().out
    assert all(word in known for word in words if word.startswith("--"))


def test_shares_hold_every_block_once():
    for count in (1, 3, 7, 20):
        found = [number for share in range(count) for number in Share(share, count).among(11)]
        assert found == list(range(11))
    assert blocks_of("2/8") == Share(2, 8)
    with pytest.raises(ConfigError, match="0/8 for the first of eight shares"):
        blocks_of("8/8")
