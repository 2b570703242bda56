"""Random numbers: named streams, and draws that depend on their key alone, not on batch, order or device."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int, UInt
from torch import Tensor

_MASK = 0xFFFFFFFF
_MASK64 = 0xFFFFFFFFFFFFFFFF


@dataclass(frozen=True)
class Key:
    """A random stream, known by a seed and the names folded into it.

    Streams of different names are independent: ``key.fold_in("epoch", 3)`` shares no draw with
    ``key.fold_in("epoch", 4)`` or ``key.fold_in("injected", 3)``.
    """

    value: int

    @classmethod
    def of(cls, seed: int) -> Key:
        """Return the root stream of a user's seed."""
        return cls(0).fold_in("seed", seed)

    def fold_in(self, *names: str | int) -> Key:
        """Return the stream of this name within this one."""
        digest = hashlib.blake2b(repr((self.value, names)).encode(), digest_size=8).digest()
        return Key(int.from_bytes(digest, "big") >> 1)

    def generator(self, device: torch.device | str = "cpu") -> torch.Generator:
        """Return a generator at the start of this stream."""
        return torch.Generator(device=device).manual_seed(self.value)

    @property
    def seed32(self) -> int:
        """Return a seed for libraries that take 32 bits."""
        return self.value & _MASK


def seed32_of(seed: int) -> int:
    """Return a user's seed for libraries that take 32 bits; it stays as it is where it fits."""
    return seed & _MASK


def mix(key: Int[Tensor, "*shape"]) -> Int[Tensor, "*shape"]:
    """Scramble 32-bit keys so that near keys give unrelated numbers (two multiply-shift rounds)."""
    bits = key ^ ((key >> 16) & 0xFFFF)
    bits = bits * 0x45D9F3B
    bits = bits ^ ((bits >> 15) & 0x1FFFF)
    bits = bits * -0x61C88647
    return bits ^ ((bits >> 16) & 0xFFFF)


def mix64(seed: int, *parts: Int[np.ndarray, "*shape"]) -> UInt[np.ndarray, "*shape"]:
    """Scramble a seed and some numbers into one 64-bit number each (splitmix64, once per part)."""
    mixed = np.zeros(parts[0].shape, dtype=np.uint64)
    for part in (np.full(parts[0].shape, seed & _MASK64, dtype=np.uint64), *parts):
        mixed = (mixed ^ part.astype(np.uint64)) + np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed ^= mixed >> np.uint64(31)
    return mixed


def keys(seed: int, *parts: Int[Tensor, "*shape"]) -> Int[Tensor, "*shape"]:
    """Fold a seed and some numbers into one 32-bit key each."""
    folded = torch.zeros_like(parts[0], dtype=torch.int32) + _signed(seed)
    for number, part in enumerate(parts):
        folded = with_part(folded, number, part)
    return folded


def with_part(key: Int[Tensor, "*shape"], number: int, part: Int[Tensor, "*any"]) -> Int[Tensor, "*shape"]:
    """Fold one more number into keys that were made of ``number`` others."""
    return mix(key + mix(part.to(torch.int32) + _signed(0x9E3779B9 * (number + 1))))


def uniforms(key: Int[Tensor, "*shape"], counter: int) -> Float[Tensor, "*shape"]:
    """Draw a number in (0, 1), never 0 or 1, for each key at this count."""
    bits = mix(key + _signed(counter * 0x9E3779B9 + 0x7F4A7C15))
    return (((bits >> 9) & 0x7FFFFF).float() + 0.5) * (1.0 / 0x800000)


def gumbels(key: Int[Tensor, "*shape"], counter: int) -> Float[Tensor, "*shape"]:
    """Draw a standard Gumbel number for each key: the largest of score plus Gumbel is a softmax draw."""
    return -(-uniforms(key, counter).log()).log()


def _signed(number: int) -> int:
    """Read the low 32 bits of a number as a signed one, as an int32 tensor holds it."""
    low = number & _MASK
    return low - (1 << 32) if low >= 1 << 31 else low
