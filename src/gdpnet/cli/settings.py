"""The command that documents every setting; the reference page is generated from the same rows."""

from __future__ import annotations

from dataclasses import fields
from typing import Annotated, Any

import typer

from gdpnet.cli import completion
from gdpnet.cli import options as opt
from gdpnet.cli.output import print_table
from gdpnet.config import Config, toml_text
from gdpnet.errors import ConfigError, nearest


def settings(
    section: Annotated[
        str | None,
        typer.Argument(
            metavar="SECTION",
            help="Section to show.",
            show_default="all sections",
            autocompletion=completion.sections,
        ),
    ] = None,
    markdown: Annotated[bool, opt.flag(opt.OUTPUT, "--markdown", "Print Markdown tables.")] = False,
    as_json: opt.Json = False,
) -> dict[str, Any]:
    """Show every setting of a model: what it does, its default and its allowed values.

    Change settings with --set, as in `gdpnet train cora --out runs/cora --set ppo.discount=0.9`, or in a TOML file
    given with --config.
    """
    shown = describe_settings(section)
    if markdown:
        print(settings_markdown(section), end="")
    elif not as_json:
        for one in shown:
            title = f"[{one['name']}] {one['about']}".replace("[", r"\[")
            rows = [
                (item["name"], _text(item["default"]).replace("[", r"\["), item["allowed"], item["about"])
                for item in one["settings"]
            ]
            print_table(title, ("setting", "default", "allowed", "description"), rows, text=4, fold=True)
    return {"sections": shown}


def describe_settings(section: str | None = None) -> list[dict[str, Any]]:
    """Return every section of settings, or one of them, as plain values."""
    sections = vars(Config())
    if section is not None and section not in sections:
        raise ConfigError(f"there is no section '{section}' of settings{nearest(section, sections)}")
    return [
        {"name": name, "about": type(values).__doc__, "settings": list(map(_describe, fields(values)))}
        for name, values in sections.items()
        if section in (None, name)
    ]


def settings_markdown(section: str | None = None) -> str:
    """Return the reference of all settings, or of one section, as Markdown."""
    lines = []
    for one in describe_settings(section):
        lines += [f"## {one['name']}", "", one["about"], ""]
        lines += ["| setting | default | allowed | description |", "|---|---|---|---|"]
        lines += [
            f"| `{item['name']}` | `{_text(item['default'])}` | {item['allowed']} | {item['about']} |"
            for item in one["settings"]
        ]
        lines.append("")
    return "\n".join(lines)


def _describe(item: Any) -> dict[str, Any]:
    return {
        "name": item.name,
        "default": item.default,
        "allowed": _allowed(item.default, item.metadata),
        "about": item.metadata["about"],
    }


def _allowed(default: Any, limits: Any) -> str:
    """Say which values a setting may have."""
    if isinstance(default, bool):
        return "true, false"
    if limits["choices"]:
        return ", ".join(limits["choices"])
    low, high = (None if limit is None else f"{limit:g}" for limit in (limits["low"], limits["high"]))
    bounds = f"{low} to {high}" if high is not None else f"at least {low}"
    if not isinstance(default, tuple):
        return bounds
    return f"list of numbers, {bounds}" if limits["any_length"] else f"{len(default)} numbers, {bounds}"


def _text(value: Any) -> str:
    """Write a value as in TOML, without quotes."""
    return toml_text(value).replace('"', "")
