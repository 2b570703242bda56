"""The program ``gdpnet``: its commands in the order of its help, each with an example."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, getdoc, signature
from typing import Annotated, Any

import typer

from gdpnet._core.version import __version__
from gdpnet._core.words import counted
from gdpnet.cli import (
    attack,
    compare,
    data,
    demo,
    explore,
    paper,
    plan,
    predict,
    serve,
    settings,
    train,
    tune,
)
from gdpnet.cli.options import COMPUTING, GraphSource, Json, Quiet
from gdpnet.cli.output import print_json, results_to, set_quiet
from gdpnet.errors import WorkError

_COMMANDS: dict[str, dict[Callable[..., Any], str]] = {
    "Train a model": {
        demo.demo: "gdpnet demo --out runs/demo",
        train.train: "gdpnet train cora --out runs/cora",
    },
    "Use a trained model": {
        predict.evaluate: "gdpnet evaluate runs/cora",
        predict.predict: "gdpnet predict runs/cora --out predictions.csv",
        predict.embed: "gdpnet embed runs/cora --out embeddings.parquet",
        predict.denoise: "gdpnet denoise runs/cora --out edges.csv",
        predict.explain: "gdpnet explain runs/cora cora --node 7",
        explore.explore: "gdpnet explore runs/cora --out explorer.html",
        serve.serve: "gdpnet serve runs/cora --graph corastore",
    },
    "Prepare graphs": {
        data.datasets: "gdpnet datasets",
        data.noise: "gdpnet noise cora --kind random-links=0.5 --out noisy",
        data.generate: "gdpnet generate --nodes 500000 --edges 10000000 --out big",
        data.store: "gdpnet store mygraph --out mystore",
        plan.plan: "gdpnet plan --nodes 5e8 --edges 1e10 --features 128 --machines 64",
    },
    "Compare methods": {
        tune.tune: "gdpnet tune --dataset cora --methods gcn,gat",
        compare.robustness: "gdpnet robustness --dataset cora --rates 0,1.0 --seeds 3",
        attack.attack: "gdpnet attack --dataset cora --split 10/10/80 --transductive --seeds 3",
        compare.tasks: "gdpnet tasks links --dataset cora --seeds 3",
        paper.reproduce: "gdpnet reproduce table2 --datasets cora --trials 3",
        paper.report: "gdpnet report results --out report.html",
    },
    "Reference": {settings.settings: "gdpnet settings ppo"},
}

app = typer.Typer(
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Learn which neighbours of a noisy graph to trust, classify its nodes, and write the cleaned graph.",
    epilog="Example: [bold]gdpnet train cora --out runs/cora[/bold]\n\n"
    "Exit codes: 0 done, 1 the work or a part of it failed, 2 wrong input, 70 a mistake of the program, "
    "130 interrupted, 143 ended by SIGTERM.",
)


def _add_commands() -> None:
    for panel, commands in _COMMANDS.items():
        for command, example in commands.items():
            paragraphs = (getdoc(command) or "").split("\n\n")
            text = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
            epilog = f"Example: [bold]{example}[/bold]"
            app.command(help=text, epilog=epilog, rich_help_panel=panel)(_with_shared_options(command))


def _with_shared_options(command: Callable[..., Any]) -> Callable[..., None]:
    """Return a command as typer takes it: with the options of its ``source`` one by one, --json and --quiet.

    A command returns its record, which --json prints. One that prints less with --json takes the option itself. If
    the record lists failures of trials, the command fails after its results are printed.
    """
    own, shared = (signature(each, eval_str=True).parameters for each in (command, GraphSource.of))
    options: list[Parameter] = []
    for name, one in own.items():
        options += shared.values() if name == "source" else [one]
    panels = [one.annotation.__metadata__[0].rich_help_panel for one in options] + [COMPUTING]
    added = {"as_json": Json, "quiet": Quiet}
    place = panels.index(COMPUTING)
    options[place:place] = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=False, annotation=kind)
        for name, kind in added.items()
        if name not in own
    ]

    @wraps(command)
    def run(**given: Any) -> None:
        wanted = given["as_json"] if "as_json" in own else given.pop("as_json")
        if "source" in own:
            given["source"] = GraphSource.of(**{name: given.pop(name) for name in shared})
        with results_to(wanted, given.pop("quiet")):
            record = command(**given)
        print_json(wanted, record)
        if failures := record.get("failures"):
            raise WorkError(
                f"{len(failures):,} of {counted(record['trials'], 'trial')} failed, the first because: {failures[0]};"
                " the same command tries them again"
            )

    keyword_only = [one.replace(kind=Parameter.KEYWORD_ONLY) for one in options]
    run.__signature__ = signature(command).replace(parameters=keyword_only)  # type: ignore[attr-defined]  # typer reads it
    return run


def _show_version(wanted: bool) -> bool:
    if wanted:
        print(f"gdpnet {__version__}")
        raise typer.Exit
    return wanted


@app.callback()
def _program(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, metavar="", help="Show the version and exit."
        ),
    ] = False,
    debug: Annotated[
        bool,
        typer.Option("--debug", metavar="", help="Show the traceback of an error; works with every command."),
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", metavar="", help="Print results and errors only.")
    ] = False,
) -> None:
    """Read the options of the program; ``gdpnet.cli.main`` handles --debug before the words are parsed."""
    set_quiet(quiet)


_add_commands()
