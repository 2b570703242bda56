"""Compiled functions and their cache, which a power cut may leave damaged."""

import importlib.util
from pathlib import Path

import pytest

pytest.importorskip("numba", reason="the cache is numba's")

from gdpnet._core.compiled import cached


@pytest.fixture
def doubled(tmp_path, monkeypatch):
    """Return a function whose cache lies in a folder of its own."""
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    path = tmp_path / "doubling.py"
    path.write_text("def doubled(number):\n    return 2 * number\n")
    found = importlib.util.spec_from_file_location("doubling", path)
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module.doubled


def files_of(tmp_path: Path, ending: str) -> list[Path]:
    return sorted((tmp_path / "__pycache__").glob(f"*{ending}"))


def test_a_compiled_function_is_read_from_the_cache_by_the_next_process(doubled, tmp_path):
    assert cached(doubled)(3) == 6
    assert len(files_of(tmp_path, ".nbi")) == len(files_of(tmp_path, ".nbc")) == 1
    again = cached(doubled)
    assert again(3) == 6
    assert sum(again.stats.cache_hits.values()) == 1


@pytest.mark.parametrize("ending", [".nbi", ".nbc"])
@pytest.mark.parametrize("left", [0, 40, 100])
def test_a_cache_that_was_cut_short_is_written_anew(ending, left, doubled, tmp_path):
    cached(doubled)(3)
    (damaged,) = files_of(tmp_path, ending)
    damaged.write_bytes(damaged.read_bytes()[:left])
    assert cached(doubled)(3) == 6
    mended = cached(doubled)
    assert mended(3) == 6
    assert sum(mended.stats.cache_hits.values()) == 1


def test_a_full_disk_behind_the_cache_is_no_error(doubled, tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("numba.core.caching.IndexDataCacheFile.save", fail)
    assert cached(doubled)(3) == 6
    assert files_of(tmp_path, ".nbc") == []
