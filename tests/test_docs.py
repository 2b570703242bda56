"""The code in the documentation runs, its commands exist, and its settings are settings."""

import importlib.util
import re
import shlex
from pathlib import Path

import matplotlib
import pytest

from gdpnet.cli import main
from gdpnet.config import Config

DOCS = Path(__file__).parents[1] / "docs"
PAGES = sorted(DOCS.glob("*.md"))


def blocks(page: Path, language: str) -> list[str]:
    text = page.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


WITH_PYTHON = [page for page in PAGES if blocks(page, "python")]
COMMANDS = [
    pytest.param(shlex.split(line, comments=True)[1:], id=f"{page.name}: {line.partition('#')[0].strip()}")
    for page in [*PAGES, DOCS.parent / "README.md", DOCS.parent / "CONTRIBUTING.md"]
    for block in blocks(page, "sh")
    for line in block.splitlines()
    if line.startswith("gdpnet ")
]


@pytest.mark.slow
@pytest.mark.parametrize("page", WITH_PYTHON, ids=lambda page: page.name)
def test_the_python_code_of_a_page_runs_from_top_to_bottom(page, tmp_path, monkeypatch):
    if page.name == "environment.md":
        pytest.importorskip("gymnasium", reason="gymnasium is not installed: pip install 'gdpnet[gym]'")
    monkeypatch.chdir(tmp_path)
    matplotlib.use("Agg")
    names = {"__name__": "__main__"}
    for number, block in enumerate(blocks(page, "python")):
        if "import pandas" in block and importlib.util.find_spec("pandas") is None:
            continue  # pip install 'gdpnet[pandas]'
        exec(compile(block, f"{page.name}, block {number}", "exec"), names)


def test_enough_pages_show_code():
    assert len(WITH_PYTHON) >= 5
    assert len(COMMANDS) >= 20


@pytest.mark.parametrize("words", COMMANDS)
def test_the_commands_of_the_pages_and_their_options_exist(words, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERM", "dumb")
    command = words[0]
    assert main([command, "--help"]) == 0
    known = capsys.readouterr().out
    for option in (word.partition("=")[0] for word in words[1:] if word.startswith("--")):
        assert re.search(rf"{option}\b", known), f"gdpnet {command} has no option {option}"


@pytest.fixture(scope="module")
def pages():
    """Return the module that generates pages of the site."""
    pytest.importorskip("mkdocs", reason="mkdocs is not installed: pip install 'gdpnet[docs]'")
    spec = importlib.util.spec_from_file_location("docs_pages", DOCS / "_hooks" / "pages.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_of_settings_has_a_row_for_every_setting(pages):
    rows = re.findall(r"^\| `(\w+)` \| (.+) \| `(.+)` \| (.+) \|$", pages.settings_page(), re.MULTILINE)
    assert [row[0] for row in rows] == [name for values in Config().to_dict().values() for name in values]
    assert all(about.strip() and limits.strip() for _, about, _, limits in rows)


def test_the_page_of_commands_has_a_section_for_every_command(pages):
    sections = set(re.findall(r"^### ([\w-]+)$", pages.command_line_page(), re.MULTILINE))
    assert {words.values[0][0] for words in COMMANDS} <= sections


def test_the_page_of_public_names_has_every_name(pages):
    import gdpnet

    for name in set(gdpnet.__all__) - {"__version__"}:
        assert f".{name}\n" in pages.public_names_page()


def test_a_page_that_loads_something_from_elsewhere_is_refused(pages, tmp_path):
    from types import SimpleNamespace

    from mkdocs.exceptions import PluginError

    page = tmp_path / "index.html"
    page.write_text(
        '<a href="https://example.org">a link</a><script src="own.js"></script>', encoding="utf-8"
    )
    pages.on_post_build(SimpleNamespace(site_dir=tmp_path))
    page.write_text('<script src="https://example.org/far.js"></script>', encoding="utf-8")
    with pytest.raises(PluginError, match="must work offline"):
        pages.on_post_build(SimpleNamespace(site_dir=tmp_path))


def test_the_settings_that_the_pages_name_exist():
    known = {f"{section}.{name}" for section, values in Config().to_dict().items() for name in values}
    sections = {name.partition(".")[0] for name in known}
    for page in PAGES:
        if page.name == "results.md":  # made from records, which may have settings of older versions
            continue
        for name in re.findall(r"`([a-z]+\.[a-z_]+)(?: = [^`]*)?`", page.read_text(encoding="utf-8")):
            if name.partition(".")[0] in sections and not name.endswith((".py", ".md")):
                assert name in known, f"{page.name} names {name}, which is no setting"
