"""What a command may say when it fails: one sentence of bounded length, and no traceback."""

from __future__ import annotations

from campaigns.children import Outcome

MOST_CHARACTERS = 300
"""Longest sentence of an error."""

PREFIX = "gdpnet: "

TERMINATED = 143
"""Exit code after SIGTERM, which needs no sentence."""


def said_wrongly(ended: Outcome) -> list[str]:
    """Return what is wrong with what a command wrote to standard error."""
    lines = [line for line in ended.err.splitlines() if line.strip()]
    if "Traceback" in ended.err:
        return [f"traceback: {lines[-1][:300]}"]
    if ended.code == 70:
        return [f"internal error: {lines[-1][:300] if lines else ''}"]
    if ended.code <= 0 or (ended.code == TERMINATED and not lines):
        return []
    if not lines or not lines[-1].startswith(PREFIX):
        return [f"no sentence that begins with '{PREFIX}': {lines[-1][:200] if lines else 'nothing'}"]
    return sentence_faults(lines[-1].removeprefix(PREFIX))


def sentence_faults(sentence: str) -> list[str]:
    """Return what is wrong with the sentence of an error."""
    faults = []
    if len(sentence) > MOST_CHARACTERS:
        faults.append(f"a sentence of {len(sentence)} characters: {sentence[:120]}…")
    if "\n" in sentence or "\r" in sentence:
        faults.append(f"a sentence with a line break: {sentence[:120]!r}")
    return faults if sentence.strip() else ["an empty sentence"]
