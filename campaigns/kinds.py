"""Hostile inputs of every kind: from a seed to a case."""

from __future__ import annotations

import io
import json
import random
import struct
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from safetensors import safe_open

from campaigns.cases import BASE, Case
from campaigns.mutations import WORDS, as_bytes, changed_inside, damage, damage_json, deep
from campaigns.objects import draw_object
from campaigns.questions import draw_request
from gdpnet.inference.model_file import write_tensors


def _bytes(base: Path, name: str) -> bytes:
    return (base / name).read_bytes().replace(str(base).encode(), BASE)


def _npz(draw: random.Random, base: Path) -> Case:
    name = draw.choice(("graph.npz", "citation.npz"))
    content, values = _bytes(base, name), {"path": "graph.npz"}
    how = draw.random()
    if how < 0.35:
        return Case(
            "npz",
            "graph",
            files={"graph.npz": damage(content, draw, _bytes(base, "citation.npz"))},
            values=values,
        )
    with np.load(io.BytesIO(content)) as file:
        arrays = {key: file[key] for key in file.files}
    key = draw.choice(list(arrays))
    if how < 0.45:
        return Case("npz", "graph", files={"graph.npz": _lying(arrays, key, draw)}, values=values)
    if how < 0.55:
        del arrays[key]
    else:
        arrays[key] = _odd_array(arrays[key], draw)
    return Case("npz", "graph", files={"graph.npz": _packed(arrays, draw)}, values=values)


def _odd_array(array: np.ndarray, draw: random.Random) -> np.ndarray:
    """Return an array with another type, shape, order or value."""
    how = draw.choice(("value", "value", "value", "type", "shape", "order", "pickle", "empty", "word"))
    if how == "value" and array.size and array.dtype.kind in "iuf":
        array = np.array(array)
        most = np.iinfo(array.dtype) if array.dtype.kind in "iu" else np.finfo(array.dtype)
        choices: list[Any] = [-1, 0, 5, 10**6, 10**9, most.min, most.max, array.size]
        choices += [np.nan, np.inf] if array.dtype.kind == "f" else []
        with np.errstate(all="ignore"):
            array.flat[draw.randrange(array.size)] = np.array(draw.choice(choices)).astype(array.dtype)
        return array
    if how == "type":
        return (
            array.astype(draw.choice(("f8", "i2", "u8", "S3", "U2", "c8", "?")))
            if array.dtype.kind != "U"
            else array.astype("S9")
        )
    if how == "order":
        return array.astype(array.dtype.newbyteorder(">"))
    if how == "pickle":
        return np.array([_Planted()] * max(1, array.size), dtype=object)
    if how == "empty":
        return array.ravel()[:0]
    if how == "word":
        return np.array([draw.choice(WORDS).replace("\ud800", "") for _ in range(max(1, array.size))])
    return draw.choice(
        (array.ravel()[:-1], array[None], np.array(array.ravel()[:1]).reshape(()) if array.size else array)
    )


class _Planted:
    """An object whose unpickling would leave a file behind."""

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (Path("planted"),)


def _packed(arrays: dict[str, np.ndarray], draw: random.Random) -> bytes:
    """Return an npz file of arrays, compressed in any way that zip knows."""
    ways = (
        zipfile.ZIP_STORED,
        zipfile.ZIP_DEFLATED,
        zipfile.ZIP_DEFLATED,
        zipfile.ZIP_LZMA,
        zipfile.ZIP_BZIP2,
    )
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", draw.choice(ways)) as file:
        for name, array in arrays.items():
            part = io.BytesIO()
            np.lib.format.write_array(part, array, allow_pickle=True)
            file.writestr(f"{name}.npy", part.getvalue())
    return out.getvalue()


def _lying(arrays: dict[str, np.ndarray], key: str, draw: random.Random) -> bytes:
    """Return an npz file with one array whose header promises what is not there, or that grows a thousandfold."""
    header = io.BytesIO()
    count = draw.choice((10**7, 10**9, 10**12, 2**62, -1))
    shape = draw.choice(((count,), (count, 3), (3, count), (2**32, 2**32)))
    kind = draw.choice((arrays[key].dtype.str, "<f8", "|O", "<U1000000"))
    np.lib.format.write_array_header_2_0(header, {"descr": kind, "fortran_order": False, "shape": shape})
    bomb = draw.random() < 0.2
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        for name, array in arrays.items():
            with file.open(f"{name}.npy", "w", force_zip64=True) as part:
                if name != key:
                    np.lib.format.write_array(part, array)
                elif bomb:
                    size = 3 << 30
                    about = {"descr": "<f4", "fortran_order": False, "shape": (size // 4,)}
                    np.lib.format.write_array_header_1_0(part, about)
                    for _ in range(size >> 24):
                        part.write(bytes(1 << 24))
                else:
                    part.write(header.getvalue() + bytes(64))
    return out.getvalue()


def _store(draw: random.Random, base: Path) -> Case:
    name = draw.choice(sorted(path.name for path in (base / "store").iterdir()))
    content = _bytes(base, f"store/{name}")
    if name == "graph.json":
        changed = damage_json(content, draw)
    elif draw.random() < 0.5:
        changed = damage(content, draw)
    else:
        part = io.BytesIO()
        np.lib.format.write_array(part, _odd_array(np.load(io.BytesIO(content)), draw), allow_pickle=True)
        changed = part.getvalue()
    return Case("store", "graph", base="store", files={name: changed})


def _table_bytes(draw: random.Random, base: Path) -> Case:
    """Damage the bytes of a table: CSV, TSV or Parquet, compressed or not."""
    folder = draw.choice(("graph", "tsv", "parquet", "numbers", "weighted", "packed"))
    name = draw.choice(sorted(path.name for path in (base / folder).iterdir()))
    content = _bytes(base, f"{folder}/{name}")
    files = {name: damage(content, draw, _bytes(base, "graph/edges.csv"))}
    options = {"task": "regression"} if folder == "numbers" and draw.random() < 0.7 else {}
    return Case("table bytes", "graph", base=folder, files=files, values={"options": options})


def _table_cells(draw: random.Random, base: Path) -> Case:
    """Change cells, rows and columns of a CSV table."""
    folder = draw.choice(("graph", "numbers", "weighted"))
    name = draw.choice(sorted(path.name for path in (base / folder).iterdir()))
    rows = [line.split(",") for line in _bytes(base, f"{folder}/{name}").decode().splitlines()]
    for _ in range(draw.choice((1, 1, 3))):
        row, how = draw.randrange(len(rows)), draw.random()
        place = draw.randrange(max(1, len(rows[row])))
        if how < 0.6:
            rows[row][place : place + 1] = [draw.choice(WORDS)]
        elif how < 0.7:
            rows[row] = rows[row][:-1]
        elif how < 0.8:
            rows.insert(row, list(rows[row]))
        elif how < 0.9:
            rows = [one[:place] + one[place + 1 :] for one in rows]
        else:
            rows = [
                [*one, draw.choice(WORDS) if number else draw.choice(rows[0])]
                for number, one in enumerate(rows)
            ]
    text = draw.choice(("\n", "\n", "\r\n", "\r")).join(",".join(row) for row in rows)
    content = (
        as_bytes(text)
        if draw.random() < 0.8
        else text.encode(draw.choice(("utf-16", "latin-1", "utf-8-sig")), "replace")
    )
    if draw.random() < 0.02:
        wide = ",".join(f"c{number}" for number in range(20_000))
        content = f"id,{wide}\n".encode() + b"a" + b",1" * 20_000
        name, folder = "nodes.csv", "graph"
    return Case("table cells", "graph", base=folder, files={name: content}, values={})


_ID = (
    "ann",
    "7",
    "007",
    "a b",
    'say "x"',
    "x,y",
    "é",
    "Ω",
    "-1",
    "1.0",
    "1e3",
    "nan",
    "[/]",
    "true",
    "🧨",
    "a;b",
    " c",
    "#d",
)


def _table_written(draw: random.Random, base: Path) -> Case:
    """Write tables that are right, in some dialect, whose ids, edges and labels are known."""
    ids = draw.sample(_ID, draw.randrange(3, 9))
    ids = [name for name in ids if name.strip() == name]
    edges = [[draw.choice(ids), draw.choice(ids)] for _ in range(draw.randrange(2, 12))]
    labels = {name: draw.choice(("cat", "dog", "emu", "")) for name in ids}
    mark = draw.choice((",", ",", ";", "\t"))
    end = draw.choice(("\n", "\r\n"))

    def line(cells: list[str]) -> str:
        return mark.join('"' + cell.replace('"', '""') + '"' for cell in cells)

    nodes = [
        line(["id", "label", "x"]),
        *(line([name, labels[name], str(place)]) for place, name in enumerate(ids)),
    ]
    pairs = [line(["source", "target"]), *(line(pair) for pair in edges)]
    way = draw.choice(("utf-8", "utf-8-sig"))
    files = {
        "nodes.csv": (end.join(nodes) + end).encode(way),
        "edges.csv": (end.join(pairs) + end).encode(way),
    }
    expected = {"ids": ids, "edges": edges, "labels": labels}
    return Case("table written", "graph", files=files, values={"expected": expected})


def _parquet(draw: random.Random, base: Path) -> Case:
    """Write Parquet tables with columns of types that a graph rarely has."""
    names = [f"n{number}" for number in range(6)]
    nodes: dict[str, Any] = {"id": names, "label": list("abcabc"), "x": [0.5] * 6}
    edges: dict[str, Any] = {"source": names, "target": names[1:] + names[:1], "weight": [1.0] * 6}
    table = draw.choice((nodes, edges))
    odd: list[Any] = [
        pa.array([b"\xff\xfe"] * 6),
        pa.array([[1, 2]] * 6),
        pa.array([{"a": 1}] * 6),
        pa.array([None] * 6),
        pa.array([2**63 + number for number in range(6)], pa.uint64()),
        pa.array([0, 1, 2, 3, 4, 5], pa.timestamp("ns")),
        pa.array([0, 1, 2, 3, 4, 5], pa.int64()).cast(pa.decimal128(38, 2)),
        pa.array(names).dictionary_encode(),
        pa.array([draw.choice(WORDS).replace("\ud800", "?") for _ in range(6)], pa.large_string()),
        pa.array([float("nan"), float("inf"), 1.0, 2.0, None, 3.0]),
        pa.array(np.arange(6, dtype=np.float16)),
        pa.array([True, False, None] * 2),
        _not_text(),
    ]
    table[draw.choice([*table, draw.choice(WORDS).replace("\ud800", "?")])] = draw.choice(odd)
    if draw.random() < 0.1:
        table["extra"] = draw.choice(odd)
    files = {}
    for stem, columns in (("nodes", nodes), ("edges", edges)):
        out = pa.BufferOutputStream()
        pq.write_table(pa.table(columns), out)
        files[f"{stem}.parquet"] = out.getvalue().to_pybytes()
    return Case("parquet", "graph", files=files)


def _not_text() -> Any:
    """Return a column of text whose bytes are no UTF-8."""
    offsets = np.arange(7, dtype=np.int32) * 2
    return pa.Array.from_buffers(pa.string(), 6, [None, pa.py_buffer(offsets), pa.py_buffer(b"\xff\xfe" * 6)])


_JSON_WORDS = {
    "run/run.json": ["evaluate", "{folder}/in"],
    "run/metrics.json": ["report", "{folder}/in", "--out", "{folder}/page.html"],
    "stopped/run.json": [
        "train",
        "{base}/graph",
        "--out",
        "{folder}/in",
        "--resume",
        "--no-check",
        "--device",
        "cpu",
    ],
    "shards/shards.json": [
        "denoise",
        "{base}/run",
        "--shards",
        "--shard-edges",
        "40",
        "--out",
        "{folder}/in",
    ],
    "partial/shards.json": [
        "denoise",
        "{base}/run",
        "--shards",
        "--shard-edges",
        "40",
        "--out",
        "{folder}/in",
    ],
    "run/history.jsonl": ["report", "{folder}/in", "--out", "{folder}/page.html"],
    "run/split.csv": ["evaluate", "{folder}/in"],
    "run/config.toml": ["report", "{folder}/in", "--out", "{folder}/page.html"],
    "stopped/config.toml": [
        "train",
        "{base}/graph",
        "--out",
        "{folder}/in",
        "--resume",
        "--no-check",
        "--device",
        "cpu",
    ],
}


def _json(draw: random.Random, base: Path) -> Case:
    place = draw.choice(list(_JSON_WORDS))
    folder, name = place.split("/")
    content = _bytes(base, place)
    if name.endswith(".json"):
        changed = damage_json(content, draw)
    elif name.endswith(".jsonl"):
        changed = _damaged_lines(content, draw)
    else:
        changed = damage(content, draw)
    values = {"words": _JSON_WORDS[place]} | ({"shards": True} if folder in ("shards", "partial") else {})
    return Case("json", "command", base=folder, files={name: changed}, values=values)


def _damaged_lines(content: bytes, draw: random.Random) -> bytes:
    """Return JSON Lines with one line damaged."""
    lines = content.splitlines()
    place = draw.randrange(len(lines))
    lines[place] = damage_json(lines[place], draw).replace(b"\n", b"")
    return b"\n".join(lines) + b"\n"


def _shard_files(draw: random.Random, base: Path) -> Case:
    """Damage a shard, or an intermediate result of a stopped run."""
    folder = draw.choice(("shards", "partial"))
    found = [path for path in (base / folder).rglob("*") if path.is_file() and path.name != "shards.json"]
    path = draw.choice(sorted(found))
    name = path.relative_to(base / folder).as_posix()
    words = _JSON_WORDS["shards/shards.json"]
    files = {name: damage(path.read_bytes(), draw)}
    return Case("shards", "command", base=folder, files=files, values={"words": words, "shards": True})


def _settings(draw: random.Random, base: Path) -> Case:
    text = _bytes(base, "fast.toml").decode()
    how = draw.random()
    if how < 0.4:
        return Case("settings", "settings", files={"settings.toml": damage(text.encode(), draw)})
    odd = [
        "nan",
        "inf",
        "-inf",
        "-1",
        "0",
        "1e400",
        "9" * 400,
        "true",
        '"x"',
        "[]",
        "{}",
        "[1,2,3]",
        "1979-05-27",
    ]
    odd += [
        deep(1000),
        deep(100_000),
        "{a=" * 500 + "1" + "}" * 500,
        '"' + "x" * 5000 + '"',
        '"\\u202e[/]"',
        "0x10",
    ]
    lines = text.splitlines()
    places = [number for number, line in enumerate(lines) if "=" in line]
    for place in draw.sample(places, draw.choice((1, 1, 2))):
        key = (
            lines[place].split("=")[0]
            if draw.random() < 0.9
            else draw.choice(("a.b.c", '""', '"[/]"', "x" * 500))
        )
        lines[place] = f"{key} = {draw.choice(odd)}"
    return Case("settings", "settings", files={"settings.toml": as_bytes("\n".join(lines))})


def _tensors_of(path: Path) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    with safe_open(path, framework="pt") as file:
        about = json.loads(file.metadata()["about"])
        return {name: file.get_tensor(name) for name in file.keys()}, about  # noqa: SIM118 - not a mapping


def _with_checksum(path: Path, kind: str, draw: random.Random, scratch: Path) -> bytes:
    """Return a file with a right checksum around wrong content."""
    tensors, about = _tensors_of(path)
    if draw.random() < 0.7:
        about = _serialisable(changed_inside(about, draw))
    else:
        name = draw.choice(sorted(tensors))
        value = tensors[name]
        odd = [
            value.double(),
            value.flatten()[:-1],
            value[None],
            value.clone() * float("nan"),
            value.to(torch.int8),
            value.half(),
        ]
        tensors[name] = draw.choice(odd)
        if draw.random() < 0.3:
            del tensors[name]
    out = scratch / f"{kind}-{draw.randrange(1 << 30)}.safetensors"
    write_tensors(out, kind, tensors, about)
    content = out.read_bytes()
    out.unlink()
    return content


def _serialisable(value: Any) -> Any:
    return json.loads(json.dumps(value).encode("utf-8", "replace"))


def _model(draw: random.Random, base: Path) -> Case:
    path = base / "run" / "model.safetensors"
    if draw.random() < 0.5:
        content = damage(path.read_bytes(), draw, _bytes(base, "graph.npz"))
    elif draw.random() < 0.2:
        content = struct.pack("<Q", draw.choice((0, 2, 2**31, 2**63 - 1, 10**8))) + path.read_bytes()[8:]
    else:
        content = _with_checksum(path, "model", draw, base)
    return Case("model", "model", files={"model.safetensors": content})


def _checkpoint(draw: random.Random, base: Path) -> Case:
    path = base / "stopped" / "checkpoint.safetensors"
    whole = draw.random() < 0.4
    content = damage(path.read_bytes(), draw) if whole else _with_checksum(path, "checkpoint", draw, base)
    return Case(
        "checkpoint",
        "command",
        base="stopped",
        files={"checkpoint.safetensors": content},
        values={"words": _JSON_WORDS["stopped/run.json"]},
    )


_RECORD_WORDS = (
    ["report", "{folder}/in", "--out", "{folder}/page.html"],
    ["reproduce", "table2", "--datasets", "cora", "--report-only", "--results", "{folder}/in"],
    ["robustness", "--dataset", "{base}/graph", "--report-only", "--records", "{folder}/in/robustness.jsonl"],
)


def _records(draw: random.Random, base: Path) -> Case:
    name = draw.choice(("robustness.jsonl", "robustness.jsonl", "portraits.jsonl", "settings.jsonl"))
    content = _bytes(base, f"results/{name}")
    changed = _damaged_lines(content, draw) if draw.random() < 0.8 else damage(content, draw)
    return Case(
        "records",
        "command",
        base="results",
        files={name: changed},
        values={"words": draw.choice(_RECORD_WORDS)},
    )


def _ids(draw: random.Random, base: Path) -> Case:
    words = [draw.choice((*WORDS, "000", "001")) for _ in range(draw.randrange(1, 5))]
    content = as_bytes(draw.choice(("\n", "\r\n", ",")).join(words))
    content = damage(content, draw) if draw.random() < 0.3 else content
    command = draw.choice(("embed", "predict"))
    line = [command, "{base}/run", "--out", "{folder}/rows.csv", "--nodes-from", "{folder}/in/ids.txt"]
    return Case("node ids", "command", files={"ids.txt": content}, values={"words": line})


_OPTIONS: dict[str, tuple[list[str], list[str]]] = {
    "train": (
        [
            "train",
            "{base}/graph",
            "--config",
            "{base}/fast.toml",
            "--no-check",
            "--device",
            "cpu",
            "--out",
            "{folder}/run",
        ],
        [
            "--seed",
            "--split",
            "--budget",
            "--hops",
            "--metric",
            "--task",
            "--column",
            "--features",
            "--drop",
            "--set",
            "--class-weight",
        ],
    ),
    "denoise": (
        ["denoise", "{base}/run", "--out", "{folder}/edges.csv"],
        ["--threshold", "--column", "--split", "--out"],
    ),
    "shards": (
        ["denoise", "{base}/run", "--shards", "--out", "{folder}/shards"],
        ["--shard-edges", "--threshold"],
    ),
    "predict": (
        ["predict", "{base}/run", "--shards", "--out", "{folder}/shards"],
        ["--shard-edges", "--blocks", "--nodes", "--column"],
    ),
    "plan": (
        ["plan", "--nodes", "1000", "--edges", "5000"],
        ["--nodes", "--edges", "--features", "--width", "--machines", "--cores", "--network"],
    ),
    "embed": (["embed", "{base}/run", "--out", "{folder}/rows.csv"], ["--nodes", "--nodes-from", "--out"]),
    "explain": (["explain", "{base}/run"], ["--node"]),
    "explore": (
        ["explore", "{base}/run", "--out", "{folder}/explorer.html"],
        ["--nodes", "--nodes-from", "--hops", "--out", "--split"],
    ),
    "generate": (
        ["generate", "--out", "{folder}/made"],
        ["--nodes", "--edges", "--features", "--classes", "--noise", "--seed"],
    ),
    "noise": (["noise", "{base}/graph", "--out", "{folder}/noisy"], ["--kind", "--seed", "--split"]),
    "robustness": (
        ["robustness", "--report-only", "--dataset", "{base}/graph", "--records", "{folder}/none.jsonl"],
        ["--rates", "--seeds", "--first-seed", "--methods", "--noise", "--split"],
    ),
    "settings": (["settings"], [""]),
    "evaluate": (["evaluate", "{base}/run"], ["--split", "--column", ""]),
    "graph": (["store", "--out", "{folder}/stored"], [""]),
}
_PREFIXES = {
    "--kind": ("random-links=", "flipped-labels=", "gaussian-features=", ""),
    "--column": ("label=", "features=", ""),
    "--set": ("training.epochs=", "ppo.clip=", "policy.hidden=", "task.kind=", ""),
    "--rates": ("0,", ""),
}


def _options(draw: random.Random, base: Path) -> Case:
    words, options = _OPTIONS[draw.choice(sorted(_OPTIONS))]
    option = draw.choice(options)
    word = draw.choice([one for one in WORDS if "\x00" not in one])  # no process can be given a zero byte
    value = draw.choice(_PREFIXES.get(option, ("",))) + word
    limits = ["--nodes", "50", "--edges", "100"] if words[0] == "generate" else []
    raw = [option, value] if option else [value]
    return Case("options", "command", values={"words": [*words, *limits], "raw": raw})


_PLACES: dict[str, tuple[str, list[str]]] = {
    "run/model.safetensors": ("run", ["evaluate", "{folder}/in"]),
    "run/run.json": ("run", ["evaluate", "{folder}/in"]),
    "run/split.csv": ("run", ["evaluate", "{folder}/in"]),
    "run/history.jsonl": ("run", ["report", "{folder}/in", "--out", "{folder}/page.html"]),
    "stopped/checkpoint.safetensors": ("stopped", _JSON_WORDS["stopped/run.json"]),
    "shards/shards.json": ("shards", _JSON_WORDS["shards/shards.json"]),
    "graph/edges.csv": ("graph", ["store", "{folder}/in", "--out", "{folder}/made"]),
    "parquet/nodes.parquet": ("parquet", ["store", "{folder}/in", "--out", "{folder}/made"]),
    "store/neighbour.npy": ("store", ["store", "{folder}/in", "--out", "{folder}/made"]),
    "graph.npz": ("graph.npz", ["store", "{folder}/in/graph.npz", "--out", "{folder}/made"]),
}


def _special(draw: random.Random, base: Path) -> Case:
    """Put what is no file in the place of one."""
    place = draw.choice(sorted(_PLACES))
    folder, words = _PLACES[place]
    special = draw.choice(
        ("pipe", "folder", "/dev/zero", "/dev/null", "/dev/full", "/proc/self/mem", "nowhere")
    )
    values = {"words": words, "place": place.rpartition("/")[2], "special": special}
    return Case("special", "special", base=folder, values=values)


def _object(draw: random.Random, base: Path) -> Case:
    return Case("python", "object", values=draw_object(draw))


def _request(draw: random.Random, base: Path) -> Case:
    return draw_request(draw)


KINDS: dict[str, Callable[[random.Random, Path], Case]] = {
    "npz": _npz,
    "store": _store,
    "table bytes": _table_bytes,
    "table cells": _table_cells,
    "table written": _table_written,
    "parquet": _parquet,
    "json": _json,
    "shards": _shard_files,
    "settings": _settings,
    "model": _model,
    "checkpoint": _checkpoint,
    "records": _records,
    "node ids": _ids,
    "options": _options,
    "special": _special,
    "python": _object,
    "request": _request,
}
"""Makers of cases by the kind of input."""


def make_case(kind: str, number: int, seed: int, base: Path) -> Case:
    """Return the case of a kind and a number; the same seed gives the same case."""

    return replace(KINDS[kind](random.Random(f"{seed} {kind} {number}"), base), name=f"{kind}:{number}")
