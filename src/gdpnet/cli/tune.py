"""The command that searches hyper-parameters: those of the baselines, and the settings of GDPNet."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from gdpnet._core.files import plain
from gdpnet._core.words import counted
from gdpnet.cli import options as opt
from gdpnet.cli import replacing
from gdpnet.cli.compare import Labels, Methods, Noise, Rates, Transductive, methods_of, rates_of
from gdpnet.cli.output import note, print_table
from gdpnet.cli.progress import TrialProgress, doing
from gdpnet.cli.trials import (
    asked_of,
    cases_of,
    check_names,
    contents_of,
    reading_of,
    refuse_untrainable,
    say_left_alone,
)
from gdpnet.config import Config, setting_place, toml_text
from gdpnet.errors import ConfigError

if TYPE_CHECKING:
    from gdpnet.benchmark.cases import Setting


def tune(
    dataset: opt.GraphNames,
    *,
    noise: Noise = "random-links",
    rates: Rates = "0,1.0",
    split: opt.SplitName = "paper",
    labels: Labels = "all",
    transductive: Transductive = None,
    source: opt.GraphSource,
    methods: Methods = "all",
    trials: Annotated[
        int,
        opt.model("--trials N", "Choices of settings to try, if --methods names gdpnet.", min=1, max=100_000),
    ] = 20,
    config: opt.ConfigFile = None,
    overrides: opt.Overrides = None,
    records: opt.Records = Path("results/settings.jsonl"),
    out: Annotated[
        Path, opt.output("--out FILE", "TOML file for the settings found for gdpnet; --config reads it.")
    ] = Path("results/gdpnet.toml"),
    force: opt.Force = False,
    storage: Annotated[
        str | None,
        opt.output(
            "--storage URL",
            "Database that keeps the trials of gdpnet, such as sqlite:///tune.db; needs Optuna.",
        ),
    ] = None,
    seed: Annotated[int, opt.computing("--seed N", "Seed of noise and training.", min=0, max=2**32 - 1)] = 0,
    jobs: opt.Jobs = 1,
    device: opt.DeviceName = "auto",
) -> dict[str, Any]:
    """Search the hyper-parameters of the baselines, for `gdpnet robustness` to use, or the settings of GDPNet.

    Each baseline tries twelve candidates, and five more if it trains itself, and keeps the one with the best mean
    score on validation nodes over all rates. Searches that --records holds are not repeated.

    With --methods gdpnet the settings of GDPNet are searched on one graph and written to --out: by Optuna if it is
    installed, which ends hopeless fits early, else at random.
    """
    wanted, levels = methods_of(methods), rates_of(rates)
    check_names(dataset)
    itself = "gdpnet" in opt.names_in(methods, "--methods", "method")
    if itself:
        replacing.check_settings(out, force)

    from gdpnet.benchmark.ablations import VARIANTS
    from gdpnet.benchmark.cases import check_noise
    from gdpnet.benchmark.sweep import run_all
    from gdpnet.benchmark.tuning import check_tunable, searched_settings, searches_left

    wanted = [name for name in wanted if name not in VARIANTS]  # GDPNet has its settings in TOML files
    if wanted or not itself:
        check_tunable(wanted)
    check_noise(noise, levels)
    reading = reading_of(source)
    contents = contents_of(dataset, reading)
    cases = cases_of(dataset, noise, levels, [seed], split, contents, reading, labels, transductive)
    refuse_untrainable(cases.values(), device)
    asked_for = asked_of(cases)
    say_left_alone(records, asked_for)
    ours = []
    if itself:
        settings = opt.config_of(dataset[0], config, overrides)
        ours = [_tune_gdpnet(cases, settings, out, trials, storage, device)]
    if not wanted:
        return {"settings": ours}
    asked = [(some, opt.config_of(name)) for name, some in cases.items()]
    left = searches_left(asked, wanted, device, records)
    with TrialProgress(len(left)) as progress:
        run_all(left, records, jobs, progress)
    graphs = {some[0].to_record()["graph"] for some in cases.values()}
    found = {key: one for key, one in searched_settings(records, asked_for).items() if key[0] in graphs}
    columns = ("graph", "method", "dropout", "weight decay", "learning rate", "width", "layers")
    print_table(
        "hyper-parameters chosen on validation nodes",
        columns,
        [
            (*key, *(f"{getattr(one, name.replace(' ', '_')):g}" for name in columns[2:]))
            for key, one in sorted(found.items())
        ],
    )
    others = [{"graph": g, "method": m, **asdict(s)} for (g, m), s in found.items()]
    return {"settings": [*ours, *others]} | progress.counts


def _study_of(settings: tuple[Setting, ...], config: Config) -> str:
    """Return the name of the trials in a database, which those of another graph, seed or settings do not have."""
    asked = [[one.to_record() | {"seed": one.seed} for one in settings], config.to_dict()]
    digest = hashlib.sha256(json.dumps(plain(asked), sort_keys=True).encode()).hexdigest()
    return f"gdpnet on {Path(settings[0].graph).name[:100]}, {settings[0].noise[:100]}, {digest[:16]}"


def _tune_gdpnet(
    cases: dict[str, tuple[Setting, ...]],
    config: Config,
    out: Path,
    trials: int,
    storage: str | None,
    device: str,
) -> dict[str, Any]:
    """Search the settings of GDPNet on the cases of one graph, and write the best as TOML for --config."""
    if len(cases) != 1:
        raise ConfigError(
            f"the settings of GDPNet are searched on one --dataset at a time, found {len(cases)}"
        )

    from gdpnet._core.files import write_text
    from gdpnet.benchmark.cases import noisy_graph
    from gdpnet.benchmark.optuna_search import has_optuna, settings_search
    from gdpnet.estimator import GDPNet

    ((name, settings),) = cases.items()
    model = GDPNet.from_config(config, seed=settings[0].seed, device=device).set_params(verbose=0)
    study = _study_of(settings, config)
    search = settings_search(model, trials=trials, seed=settings[0].seed, storage=storage, name=study)
    note(
        f"{counted(trials, 'choice')} of settings, {'by Optuna' if has_optuna() else 'at random'}, scored on "
        "validation nodes"
    )
    with doing("trying settings"):
        search.fit([noisy_graph(one, device) for one in settings])
    best = config
    for setting, value in search.best_settings_.items():
        section, key = setting_place(setting)
        best = best.with_values({section: {key: value}})
    write_text(out, f"{replacing.TUNED}\n\n{best.to_toml()}")
    rows = [(setting, toml_text(value)) for setting, value in search.best_settings_.items()]
    print_table(
        f"{name}: settings of GDPNet, validation score {search.best_score_:.4f}", ("setting", "value"), rows
    )
    print(f"settings: {out}; use them with --config {out}")
    return {"graph": name, "method": "gdpnet", "score": search.best_score_, "settings": search.best_settings_}
