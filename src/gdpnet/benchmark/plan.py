"""How large a job on a cluster is: memory, bytes moved, time, disk, tasks and files, by formulas.

The job is to clean a graph in passes over blocks of edges and chunks of nodes (`denoise --shards`). Nodes are
numbered without regard to communities, the worst case: every edge of a block has a neighbour of its own elsewhere.
There are N nodes, E directed edges, F features and representations of width W, all in single precision.
"""

from __future__ import annotations

from dataclasses import dataclass

from gdpnet.errors import ConfigError, shortened

_NUMBER, _OFFSET = 4, 8
"""Bytes of a feature, of a decision and of a node number; and of an offset into the edges."""

_PAIRS = 40
"""Bytes of an edge's pair features and reverse edge, which the first pass keeps for the second."""

_WRITTEN = 10.3
"""Bytes of an edge in Parquet (measured on generated graphs)."""

_SPREAD = 2.6
"""E[d^2] / E[d]^2 of the degrees d: a neighbour has so many times the mean degree (measured on generated graphs)."""

_BLOCK, _CHUNK = 262_144, 131_072
"""Edges of a block, and nodes of a chunk."""

_LIBRARIES, _IN_HAND = 0.5e9, 0.6e9
"""Bytes of a worker: its libraries, and what it computes with."""

_STRAGGLERS = 1.5
"""How much longer a job takes if nothing overlaps and passes wait for their slowest block."""

_MOST, _MOST_WEIGHTS = {"features": 1 << 14, "width": 1 << 12}, 1 << 24
"""Sizes of the networks that costs are measured with, in bounded memory."""

_BITS = 8


@dataclass(frozen=True)
class Job:
    """A graph to clean, and the machines that do it."""

    nodes: float
    edges: float
    features: int = 128
    machines: int = 1
    width: int = 128
    cores: int = 16
    """Cores per machine."""
    network: float = 10.0
    """Gigabits per second and machine."""

    def __post_init__(self) -> None:
        """Check that every size is positive."""
        for name, value in vars(self).items():
            if not 0 < value < 1e18:
                found = f"{value:g}" if isinstance(value, float) else shortened(str(value), 40)
                raise ConfigError(f"--{name} must be above zero and below 1e18, found {found}")
        for name, most in _MOST.items():
            if getattr(self, name) > most:
                raise ConfigError(f"--{name} can be at most {most:,}, found {getattr(self, name):,}")
        if self.features * self.width > _MOST_WEIGHTS:
            raise ConfigError(
                f"--features times --width can be at most {_MOST_WEIGHTS:,}, as networks of this size are tried out, "
                f"found {self.features * self.width:,}"
            )


@dataclass(frozen=True)
class Costs:
    """What work costs on one core."""

    edge_seconds: float
    """Seconds to decide on an edge, all passes together."""
    gather_seconds: float
    """Seconds to gather a gigabyte of rows."""


def moved_per_edge(job: Job) -> dict[str, float]:
    """Return the bytes that each pass moves per edge.

    The sums and the means over neighbourhoods read the features of a neighbour, 4 F. The first decisions read its
    features, sums and two projections, 8 F + 8 W, and its row of edges. The second ones read the projections, the
    kept pair features and the reverse edge's first decision.
    """
    features, projections = _NUMBER * job.features, 2 * _NUMBER * job.width
    row = _NUMBER * _SPREAD * job.edges / job.nodes
    return {
        "sums": features,
        "first decisions": 2 * features + projections + row,
        "means": features,
        "final decisions": projections + _PAIRS + _NUMBER,
        "writing": _NUMBER + _WRITTEN,
    }


def bytes_moved(job: Job) -> float:
    """Return the bytes that all passes move, over all machines."""
    return job.edges * sum(moved_per_edge(job).values())


def memory_per_machine(job: Job) -> dict[str, float]:
    """Return the bytes of memory of a machine: the rows and edges that it serves, and its workers."""
    row = 2 * _NUMBER * (job.features + job.width)
    worker = _LIBRARIES + _IN_HAND + min(_BLOCK, job.edges) * row
    return {
        "rows of nodes": job.nodes * row / job.machines,
        "edges": (_NUMBER * job.edges + _OFFSET * job.nodes) / job.machines,
        "workers": job.cores * worker,
    }


def disk(job: Job) -> dict[str, float]:
    """Return the bytes on disk, shared by all machines: the store, the work between passes, and the result."""
    tables = 2 * _NUMBER * (job.features + job.width) * job.nodes
    return {
        "store": _NUMBER * job.features * job.nodes + _NUMBER * job.edges + _OFFSET * job.nodes,
        "node tables": tables,
        "decisions and pairs": (2 * _NUMBER + _PAIRS) * job.edges,
        "result": _WRITTEN * job.edges,
    }


def tasks_and_files(job: Job) -> tuple[int, int]:
    """Return how many tasks there are, three per block and two per chunk, and files, four and five."""
    blocks, chunks = -(-int(job.edges) // _BLOCK), -(-int(job.nodes) // _CHUNK)
    return 3 * blocks + 2 * chunks, 4 * blocks + 5 * chunks


def seconds(job: Job, costs: Costs) -> dict[str, float]:
    """Return the seconds of the network, of deciding and of gathering rows, if each were alone; and of the job.

    The job takes at least as long as the slowest of them, and at most as long as all one after the other, with
    stragglers.
    """
    moved, cores = bytes_moved(job), job.machines * job.cores
    parts = {
        "network": 0.0 if job.machines == 1 else moved / job.machines / (job.network * 1e9 / _BITS),
        "deciding": job.edges * costs.edge_seconds / cores,
        "gathering": moved / 1e9 * costs.gather_seconds / cores,
    }
    return parts | {"at least": max(parts.values()), "at most": _STRAGGLERS * sum(parts.values())}
