"""Pages that are made when the site is built: settings, command line, API, tutorial and the project's own files."""

from __future__ import annotations

import ast
import dataclasses
import os
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "src"))

ROOMS = {
    "data": "graphs: reading, checking, datasets, noise",
    "selection": "phase one: the decision process, the policy, PPO",
    "representation": "phase two: the aggregator, the heads, the tasks",
    "inference": "a trained model applied to a graph",
    "training": "both phases in turn",
    "envs": "the decision process as a Gymnasium environment",
    "benchmark": "baselines, comparisons, the paper's evaluation",
    "web": "the explorer's page and its data",
}
"""Rooms with an API page of their own."""

COMMAND_LINE_USE = """\
## Output

Results go to standard output. Notes about the graph, warnings, progress and errors go to standard error. `--quiet`
(`-q`, before or after the command) leaves notes and progress out. With `--json` standard output gets one JSON
document on one line and nothing else; a score that does not exist is `null`.

```sh
gdpnet evaluate runs/cora --json | jq .micro_f1
gdpnet -q train cora --out runs/cora
```

On a terminal `train` shows a bar with epoch, validation score and time left, and more if the terminal is wide.
Elsewhere it prints one line per epoch.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | the work, or a part of it, failed: a trial failed, training diverged, a file could not be written |
| 2 | wrong input: an option, a setting, a graph or a run folder; nothing was computed |
| 130 | interrupted with Ctrl-C; what was written is kept |
| 143 | ended by SIGTERM; what was written is kept |

An error is one sentence; `--debug` shows where it came from.

## Resuming and training further

The same `train` command with `--resume` continues a stopped run. Of a finished run it prints the scores and changes
nothing. Settings that are given must be those of the run; the first that differs is named. Only `training.epochs`
may be larger: then the run goes on, and ends as if it had had that number from the start, unless early stopping
ended it before.

```sh
gdpnet train mygraph --out runs/mine --set training.epochs=40
gdpnet train mygraph --out runs/mine --set training.epochs=80 --resume
```

## Splits

`--split` takes `paper` (the split of the dataset or of your files), `random`, or shares of training, validation and
test nodes such as `60/20/20`. Shares are drawn with the seed, class by class. A graph of your files with labels and
without a split gets `60/20/20`, and a note says so. A run remembers its split. `evaluate --split` also takes the
part to score: `train`, `validation` or `test`.

## Records

`tune`, `robustness`, `tasks` and `reproduce` record every trial, with the name of the graph and a fingerprint of
its content: edges, features, weights, labels and split. If the content changes, the trials are run again; older
records stay in the file and are not reported. `gdpnet report results` writes all records as one page, and
`gdpnet report runs/mine` writes a page about one run.

## Completion

`gdpnet --install-completion` lets your shell complete commands, options, datasets, graphs, run folders and
settings; `gdpnet --show-completion` prints the script instead.

"""
"""What holds for every command."""

LESS_SEARCHED = ("---", "search:", "  boost: 0.5", "---", "")
"""Front matter of pages that the search shows after others."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages to the site."""
    loose = [ROOT / "src/gdpnet" / name for name in ("config.py", "errors.py")]
    pages: dict[str, str | bytes] = {
        "settings.md": settings_page(),
        "command-line.md": command_line_page(),
        "api/index.md": public_names_page(),
        "api/config.md": api_page("gdpnet.config", "settings and errors", loose),
        "changelog.md": project_file("CHANGELOG.md"),
        "contributing.md": project_file("CONTRIBUTING.md"),
        "security.md": project_file("SECURITY.md"),
    }
    for room, about in ROOMS.items():
        modules = sorted((ROOT / "src/gdpnet" / room).rglob("*.py"))
        pages[f"api/{room}.md"] = api_page(f"gdpnet.{room}", about, modules)
    pages |= tutorial_pages(ROOT / "docs/tutorial.ipynb")
    for name, content in pages.items():
        files.append(File.generated(config, name, content=content))
    return files


def on_post_build(config: MkDocsConfig) -> None:
    """Refuse a site that would load a script, a style or a picture from elsewhere."""
    foreign = re.compile(r"<(?:script|img|iframe|link)[^>]+(?:src|href)=[\"']?(?:https?:)?//[^>]*>")
    for path in sorted(Path(config.site_dir).rglob("*.html")):
        if found := foreign.search(path.read_text(encoding="utf-8")):
            raise PluginError(f"{path} must work offline, but loads {found[0]}")


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Fill the list of modules into the page on architecture."""
    if page.file.src_uri != "architecture.md":
        return markdown
    return re.sub(r"<!-- modules: .* -->", module_list(), markdown)


def module_list() -> str:
    """Return every module with the first sentence of its docstring, one table per package."""
    lines: list[str] = []
    for folder in sorted({path.parent for path in (ROOT / "src/gdpnet").rglob("*.py")}):
        rows = []
        for path in sorted(folder.glob("*.py")):
            about = (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").split("\n")[0]
            rows.append(f"| `{path.name}` | {about.replace('|', '&#124;')} |")
        name = ".".join(folder.relative_to(ROOT / "src").parts)
        lines += [f"| {name} | |", "|---|---|", *rows, ""]
    return "\n".join(lines)


def settings_page() -> str:
    """Return the reference of every setting: its sentence, default and range."""
    from gdpnet.config import Config

    lines = [
        "# Settings",
        "",
        "Every setting of a model, from the declarations in `gdpnet.config`. Set them in three ways:",
        "",
        "- in Python: `GDPNet(ppo__discount=0.9)`, `GDPNet(epochs=20)` or `model.set_params(ppo__discount=0.9)`;",
        "- in a TOML file: `[ppo]` and `discount = 0.9`, passed as `--config file.toml`;",
        "- on the command line: `--set ppo.discount=0.9`.",
        "",
        "`gdpnet settings` prints the same list. All settings are saved with the model, and a saved model keeps its",
        "own values.",
    ]
    for section in dataclasses.fields(Config):
        kind: Any = section.default_factory
        lines += ["", f"## {section.name}", "", str(kind.__doc__), ""]
        lines += ["| setting | meaning | default | range |", "|---|---|---|---|"]
        for item in dataclasses.fields(kind):
            cells = (
                f"`{item.name}`",
                item.metadata["about"],
                f"`{plain(item.default)}`",
                range_of(item.metadata),
            )
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def plain(value: Any) -> str:
    """Write a value as TOML does."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return "[" + ", ".join(plain(part) for part in value) + "]"
    return f'"{value}"' if isinstance(value, str) else f"{value:,}".replace(",", "_")


def range_of(limits: Any) -> str:
    """Say which values a setting may have."""
    if limits["choices"]:
        return ", ".join(f"`{choice}`" for choice in limits["choices"])
    low, high = limits["low"], limits["high"]
    if low is None:
        return "true, false"
    return f"≥ {low:g}" if high is None else f"{low:g} to {high:g}"


def command_line_page() -> str:
    """Return the reference of every command, from the program itself, in the order and groups of its help."""
    import click
    from typer.main import get_command

    from gdpnet.cli.app import app

    group: Any = get_command(app)
    context = click.Context(group, info_name="gdpnet")
    lines = ["# Command line", "", paragraph(group.help), "", example_of(group), "", COMMAND_LINE_USE]
    panel = None
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        inner = click.Context(command, info_name=name, parent=context)
        if (found := getattr(command, "rich_help_panel", None)) != panel and isinstance(found, str):
            panel = found
            lines += [f"## {panel}", ""]
        usage = command.get_usage(inner).removeprefix("Usage: ")
        lines += [f"### {name}", "", paragraph(command.help), "", f"Usage: `{' '.join(usage.split())}`", ""]
        lines += [example_of(command), "", *parameter_tables(command, inner)]
    return "\n".join(lines) + "\n"


def paragraph(text: str | None) -> str:
    """Return a help text as Markdown."""
    blocks = re.split(r"\n\s*\n", (text or "").replace("\b", "").strip())
    return "\n\n".join(without_markup(" ".join(block.split())) for block in blocks)


def example_of(command: Any) -> str:
    """Return the example of a command, the first paragraph of what its help shows at the end."""
    first = (command.epilog or "").partition("\n\n")[0]
    text = without_markup(" ".join(first.split())).removeprefix("Example: ")
    return f"```sh\n{text}\n```" if text else ""


def without_markup(text: str) -> str:
    """Return a text without the markup of rich."""
    return re.sub(r"\[/?(?:bold|italic|dim|cyan|green|yellow|red)\]", "", text)


def parameter_tables(command: Any, context: Any) -> list[str]:
    """Return a table of a command's arguments and options for each help panel."""
    panels: dict[str, list[str]] = {}
    for parameter in command.get_params(context):
        if getattr(parameter, "hidden", False) or parameter.name == "help":
            continue
        record = parameter.get_help_record(context)
        shown, about = record if record else (parameter.make_metavar(context), "")
        panel = getattr(parameter, "rich_help_panel", None)
        panel = panel or ("Arguments" if parameter.param_type_name == "argument" else "Options")
        about = " ".join(str(about).replace("|", "\\|").split()).replace("<", "&lt;")
        panels.setdefault(panel, []).append(f"| `{shown}` | {about} |")
    lines: list[str] = []
    for panel, rows in panels.items():
        lines += [f"| {panel} | |", "|---|---|", *rows, ""]
    return lines


def public_names() -> dict[str, str]:
    """Return the names that `import gdpnet` offers, and the module of each."""
    import gdpnet

    ordered = sorted(gdpnet.__all__, key=lambda name: (name != "GDPNet", name.lower()))
    return {name: getattr(gdpnet, name).__module__ for name in ordered if name != "__version__"}


def public_names_page() -> str:
    """Return the reference of the names that `import gdpnet` offers."""
    lines = [
        "# API",
        "",
        "The names below are imported from `gdpnet` itself. The other API pages list the modules of each package,",
        "for readers of the code and for extensions.",
        "",
    ]
    for name, module in public_names().items():
        lines += [f"::: {module}.{name}", "    options:", "      heading_level: 2", ""]
    return "\n".join(lines)


def api_page(title: str, about: str, modules: list[Path]) -> str:
    """Return the reference of some modules, one heading each, without what the page of public names has."""
    lines = [*LESS_SEARCHED, f"# {title}", "", f"{about[0].upper()}{about[1:]}.", ""]
    for path in modules:
        parts = path.relative_to(ROOT / "src").with_suffix("").parts
        if parts[-1].startswith("_") or is_kernel(path):
            continue
        module = ".".join(parts)
        elsewhere = [name for name, where in public_names().items() if where == module]
        filters = ", ".join(f'"!{pattern}"' for pattern in ["^_", *(f"^{name}$" for name in elsewhere)])
        lines += [f"::: {module}", "    options:", "      heading_level: 2"]
        lines += ["      show_root_full_path: true", f"      filters: [{filters}]"]
        lines += ["      show_signature: false", ""] if module == "gdpnet.config" else [""]
    return "\n".join(lines)


def is_kernel(path: Path) -> bool:
    """Say whether a module holds code for numba or Triton, whose functions are not called from Python."""
    return path.stem.endswith(("kernel", "products"))


def project_file(name: str) -> str:
    """Return a file of the project's root as a page; its links are bent to fit."""
    text = (ROOT / name).read_text(encoding="utf-8")
    text = re.sub(r"\]\((?:\.\./)?docs/", "](", text)
    own = {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md", "SECURITY.md": "security.md"}
    for file, page in own.items():
        text = text.replace(f"]({file})", f"]({page})")
    return text


def tutorial_pages(notebook: Path) -> dict[str, str | bytes]:
    """Run a notebook and return it as a page with its figures; a cell that fails stops the build."""
    import nbformat
    from nbclient import NotebookClient
    from nbconvert import MarkdownExporter
    from traitlets.config import Config

    content = nbformat.read(notebook, as_version=4)
    quiet = {"KernelManager": {"transport": "ipc"}}  # a kernel that listens on no port
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # a busy machine must not stall the kernel
    NotebookClient(content, timeout=600, kernel_name="python3", config=Config(quiet)).execute()
    for cell in content.cells:  # warnings of libraries are no part of the tutorial
        if cell["cell_type"] == "code":
            cell["outputs"] = [one for one in cell["outputs"] if one.get("name") != "stderr"]
    exporter = MarkdownExporter()
    body, resources = exporter.from_notebook_node(content, {"output_files_dir": "tutorial"})
    return {"tutorial.md": body, **resources["outputs"]}
