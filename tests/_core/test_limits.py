"""The limits of what is read, and the table that documents them."""

from pathlib import Path

from gdpnet._core import limits

TABLE = (Path(__file__).parents[2] / "SECURITY.md").read_text(encoding="utf-8")


def test_the_documented_limits_are_those_of_the_code():
    for number in (
        "MOST_COLUMNS",
        "MOST_CLASSES",
        "MOST_FEATURES",
        "FREE_NODES",
        "MOST_TOML_LINE",
        "MOST_SEED",
    ):
        assert f"{getattr(limits, number):,}" in TABLE, number
    for size in ("FREE_BYTES", "NAME_BYTES", "MOST_JSON_BYTES", "MOST_DOWNLOAD_BYTES"):
        assert f"{getattr(limits, size) >> 20} MiB" in TABLE, size
    assert f"{limits.MOST_TOML_BYTES >> 10} KiB" in TABLE
    assert f"{limits.EXPANSION} times the size of the file" in TABLE
    assert f"{limits.MOST_JSON_DEPTH} levels" in TABLE


def test_content_may_be_a_hundred_times_its_file_and_256_mebibytes():
    assert limits.expanded(0) == 256 * 2**20
    assert limits.expanded(10) == 256 * 2**20 + 1000
