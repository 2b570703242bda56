"""Model files: safetensors with versioned metadata and a checksum; never pickle."""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor

from gdpnet._core.files import Place, atomic_path, size_of
from gdpnet._core.json_file import entries, entry, expect, parse_json
from gdpnet._core.limits import MOST_JSON_BYTES
from gdpnet._core.regular import check_regular
from gdpnet.errors import ModelFileError, reason_of

ModelPlace = Place
"""Where a model file may lie."""

FORMAT_VERSION = 7
"""Increased when older releases could not read new files."""

_READABLE = ("3", "4", "5", "6", "7")
"""Versions that can be read; `gdpnet.inference.model` upgrades older ones."""


_TYPES = {
    "BOOL": torch.bool,
    "U8": torch.uint8,
    "I8": torch.int8,
    "I16": torch.int16,
    "I32": torch.int32,
    "I64": torch.int64,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F32": torch.float32,
    "F64": torch.float64,
}
"""Types of tensors as safetensors calls them."""


def write_tensors(path: Place, kind: str, tensors: dict[str, Tensor], about: dict[str, Any]) -> None:
    """Write named tensors and their metadata atomically."""
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    text = json.dumps(about, sort_keys=True)
    metadata = {
        "format": f"gdpnet-{kind}",
        "format_version": str(FORMAT_VERSION),
        "about": text,
        "sha256": checksum(plain, text),
    }
    content = save(plain, metadata)
    with atomic_path(path) as temporary:
        temporary.write_bytes(content)


def read_tensors(path: Place, kind: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read a file of `write_tensors`; refuse any other, and one that was changed since."""
    metadata, tensors = _read_safetensors(path, kind)
    if metadata.get("format") != f"gdpnet-{kind}":
        raise ModelFileError(f"{path} is not a GDPNet {kind} file")
    version = metadata.get("format_version", "")
    if version not in _READABLE:
        raise ModelFileError(
            f"{path} has format version '{version}', this version of GDPNet reads {', '.join(_READABLE)}"
        )
    text = metadata.get("about", "")
    if metadata.get("sha256") != checksum(tensors, text):
        raise ModelFileError(
            f"{path} was changed after it was written: its checksum does not fit its content"
        )
    about: dict[str, Any] = parse_json(text, f"the description in {path}", dict, ModelFileError)
    return tensors, about


def _read_safetensors(path: Place, kind: str) -> tuple[dict[str, str], dict[str, Tensor]]:
    """Return metadata and tensors of a file, whose header is compared with its size before anything is allocated.

    The layout is simple: the length of the header, the header in JSON, and the values of all tensors end to end. Read
    here, an interrupt stays an interrupt, which it does not inside the library.
    """
    try:
        check_regular(path)
        with path.open("rb") as file:
            size = size_of(path) or 0
            length = int.from_bytes(file.read(8), "little")
            if size < 8 or length > min(size - 8, MOST_JSON_BYTES):
                raise ModelFileError(f"its header says {length:,} bytes of {size:,}")
            header = parse_json(file.read(length), "its header", dict, ModelFileError)
            content = bytearray(file.read(size - 8 - length))
            if len(content) != size - 8 - length:
                raise ModelFileError("it became shorter while it was read")
        metadata = entry(header, "__metadata__", dict, "its header", ModelFileError, default={})
        for key, text in metadata.items():
            expect(text, str, f"'{key}' in its header", ModelFileError)
        return metadata, _tensors_of(header, content)
    except FileNotFoundError as error:
        raise ModelFileError(f"there is no {kind} file {path}") from error
    except (OSError, ModelFileError) as error:
        raise ModelFileError(
            f"{path} is not a readable {kind} file, it may be cut short ({reason_of(error)})"
        ) from error


def _tensors_of(header: dict[str, Any], content: bytearray) -> dict[str, Tensor]:
    """Return the tensors that a header describes, which fill the content without gaps, as views of it."""
    places, tensors, used = [], {}, 0
    for name in header:
        if name == "__metadata__":
            continue
        about = entry(header, name, dict, "its header", ModelFileError)
        first, last = _pair(entries(about, "data_offsets", int, f"'{name}'", ModelFileError), name)
        places.append((first, last, name))
    for first, last, name in sorted(places):
        about = header[name]
        shape = entries(about, "shape", int, f"'{name}'", ModelFileError)
        kind = _TYPES.get(entry(about, "dtype", str, f"'{name}'", ModelFileError))
        if kind is None or any(one < 0 for one in shape) or len(shape) > 64:
            raise ModelFileError(f"'{name}' has a type or shape that there is none of")
        if first != used or last > len(content) or last - first != math.prod(shape) * kind.itemsize:
            raise ModelFileError(f"'{name}' does not lie where the header says")
        used = last
        flat = (
            torch.frombuffer(content, dtype=kind, count=math.prod(shape), offset=first)
            if last > first
            else None
        )
        tensors[name] = torch.empty(shape, dtype=kind) if flat is None else flat.reshape(shape)
    if used != len(content):
        raise ModelFileError(f"it holds {len(content) - used:,} bytes after its tensors")
    return tensors


def _pair(values: list[int], name: str) -> tuple[int, int]:
    if len(values) != 2 or not 0 <= values[0] <= values[1]:
        raise ModelFileError(f"'{name}' must have a begin and an end, found others")
    return values[0], values[1]


def checksum(tensors: dict[str, Tensor], text: str) -> str:
    """Return the SHA-256 of a text and of named tensors on the host."""
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
