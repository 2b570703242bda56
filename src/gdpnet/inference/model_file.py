"""Model files: safetensors with versioned metadata and a checksum; never pickle."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from gdpnet._core.files import atomic_path
from gdpnet.errors import ModelFileError

FORMAT_VERSION = 7
"""Increased when older releases could not read new files."""

_READABLE = ("3", "4", "5", "6", "7")
"""Versions that can be read; `gdpnet.inference.model` upgrades older ones."""


def write_tensors(path: Path, kind: str, tensors: dict[str, Tensor], about: dict[str, Any]) -> None:
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


def read_tensors(path: Path, kind: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read a file of `write_tensors`; refuse any other, and one that was changed since."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
    except FileNotFoundError as error:
        raise ModelFileError(f"there is no {kind} file {path}") from error
    except (SafetensorError, OSError) as error:
        raise ModelFileError(
            f"{path} is not a readable {kind} file, it may be cut short ({error})"
        ) from error
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
    about: dict[str, Any] = json.loads(text)
    return tensors, about


def checksum(tensors: dict[str, Tensor], text: str) -> str:
    """Return the SHA-256 of a text and of named tensors on the host."""
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
