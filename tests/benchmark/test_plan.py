"""The formulas of a job's size, worked by hand."""

import json

import pytest

from gdpnet.benchmark.plan import (
    Costs,
    Job,
    bytes_moved,
    disk,
    memory_per_machine,
    moved_per_edge,
    seconds,
    tasks_and_files,
)
from gdpnet.benchmark.plan_costs import measure_costs
from gdpnet.errors import ConfigError
from helpers.commands import refuse, succeed

LARGE = Job(nodes=5e8, edges=1e10, features=128, machines=64)


def test_bytes_moved_per_edge_are_those_of_a_neighbours_rows():
    found = moved_per_edge(LARGE)
    # 4 * 128; 2 * 512 + 2 * 512 and a row of 2.6 * 20 edges of 4 bytes; 512; 1024 + 40 + 4; 4 + 10.3
    wanted = {
        "sums": 512,
        "first decisions": 2048 + 208,
        "means": 512,
        "final decisions": 1068,
        "writing": 14.3,
    }
    assert found == pytest.approx(wanted)
    assert bytes_moved(LARGE) == pytest.approx(43.62e12, rel=1e-3)


def test_fewer_features_and_narrower_representations_move_less():
    found = moved_per_edge(Job(nodes=100, edges=1000, features=10, width=5))
    # 4 * 10; 80 + 40 + 4 * 2.6 * 10; 40; 40 + 44; 14.3
    wanted = {"sums": 40, "first decisions": 224, "means": 40, "final decisions": 84, "writing": 14.3}
    assert found == pytest.approx(wanted)


def test_a_machine_holds_its_share_of_rows_and_edges_and_its_workers():
    found = memory_per_machine(LARGE)
    assert found["rows of nodes"] == 5e8 * 2048 / 64
    assert found["edges"] == (4e10 + 4e9) / 64
    assert found["workers"] == 16 * (1.1e9 + 262_144 * 2048)
    assert sum(found.values()) == pytest.approx(42.9e9, rel=0.01)


def test_the_disk_holds_store_tables_decisions_and_result():
    found = disk(LARGE)
    assert found == pytest.approx(
        {"store": 300e9, "node tables": 1024e9, "decisions and pairs": 480e9, "result": 103e9}
    )


def test_blocks_and_chunks_are_rounded_up():
    assert tasks_and_files(Job(nodes=131_073, edges=262_145)) == (3 * 2 + 2 * 2, 4 * 2 + 5 * 2)
    # 38,147 blocks and 3,815 chunks
    assert tasks_and_files(LARGE) == (122_071, 171_663)


def test_times_are_shared_by_machines_and_cores():
    job = Job(nodes=100, edges=1e9, features=1, machines=4, width=1, cores=2, network=8.0)
    moved = bytes_moved(job)
    found = seconds(job, Costs(edge_seconds=4e-5, gather_seconds=0.5))
    assert found["network"] == pytest.approx(moved / 4 / 1e9)
    assert found["deciding"] == pytest.approx(1e9 * 4e-5 / 8)
    assert found["gathering"] == pytest.approx(moved / 1e9 * 0.5 / 8)
    parts = [found[name] for name in ("network", "deciding", "gathering")]
    assert found["at least"] == max(parts)
    assert found["at most"] == pytest.approx(1.5 * sum(parts))


def test_one_machine_uses_no_network():
    assert seconds(Job(nodes=10, edges=10), Costs(1e-5, 1.0))["network"] == 0.0


@pytest.mark.parametrize("sizes", [{"nodes": 0}, {"edges": -1.0}, {"machines": 0}, {"nodes": float("nan")}])
def test_sizes_that_are_not_above_zero_are_refused(sizes):
    with pytest.raises(ConfigError, match="must be above zero"):
        Job(**({"nodes": 10, "edges": 10} | sizes))


@pytest.mark.parametrize(
    ("sizes", "sentence"),
    [
        ({"features": 2_000_000}, "--features can be at most 16,384, found 2,000,000"),
        ({"width": 10_000}, "--width can be at most 4,096, found 10,000"),
        ({"features": 16_000, "width": 4_000}, "--features times --width can be at most 16,777,216"),
    ],
)
def test_networks_that_would_take_all_memory_are_not_tried_out(sizes, sentence):
    with pytest.raises(ConfigError, match=sentence):
        Job(nodes=10, edges=10, **sizes)


@pytest.mark.slow
def test_costs_are_measured_and_positive():
    found = measure_costs(16, 8)
    assert 1e-8 < found.edge_seconds < 1e-2
    assert 1e-3 < found.gather_seconds < 1e2


@pytest.mark.slow
def test_the_command_prints_a_table_and_a_record(capsys):
    words = (
        "plan",
        "--nodes",
        "5e8",
        "--edges",
        "1e10",
        "--features",
        "16",
        "--width",
        "8",
        "--machines",
        "64",
    )
    assert "memory per machine" in succeed(capsys, *words)
    record = json.loads(succeed(capsys, *words, "--json").splitlines()[-1])
    assert record["job"]["machines"] == 64
    assert record["tasks"] == 122_071
    assert record["memory_per_machine"]["all"] == sum(
        value for name, value in record["memory_per_machine"].items() if name != "all"
    )
    assert "--nodes must be above zero" in refuse(capsys, "plan", "--nodes", "0", "--edges", "5")


@pytest.mark.parametrize("option", ["features", "machines"])
def test_a_number_that_no_float_can_hold_is_refused(option, capsys):
    words = {"--nodes": 9, "--edges": 9, f"--{option}": "9" * 400}
    said = refuse(capsys, "plan", *(word for pair in words.items() for word in pair))
    assert said.startswith(f"--{option} must be above zero and below 1e18, found 999")
