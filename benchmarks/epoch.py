"""One training epoch of GDPNet on PubMed, both phases, against one of GraphSAGE on sampled neighbours.

Both pass over the same training graph on the same device in turns. GraphSAGE has batches of 256 targets with
25 sampled neighbours and 10 of each of those, and sees every training node once. An epoch of GDPNet is one of
`train_epochs`, without validation, which GraphSAGE does without too: it decides for every training node, improves
the policy on up to `ppo.max_targets` of them, twice, as they are and with injected edges, takes up to
`representation.max_steps` steps, and measures the injected-edge AUC.
"""

from __future__ import annotations

import statistics

import torch
from records import interleaved_seconds, make_parser, median_ratio, write_record

from gdpnet._core.random import Key
from gdpnet.benchmark.baselines.fitting import Settings, inputs_of, make_task
from gdpnet.benchmark.baselines.networks import graphsage
from gdpnet.benchmark.baselines.sampling import BATCH, FAN_OUT, sampled_batches
from gdpnet.config import shipped_config
from gdpnet.data.datasets.citation import load_dataset
from gdpnet.training import trainer as training
from gdpnet.training.data import make_training_data
from gdpnet.training.state import begin_training
from gdpnet.training.trainer import train_epochs


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--repeats", type=int, default=5, help="timed turns (default: 5)")
    parser.add_argument("--device", default="cpu", help="cpu or cuda (default: cpu)")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    device = torch.device(arguments.device)
    graph = load_dataset("pubmed", arguments.data_dir, download=False)
    config = shipped_config("pubmed").with_overrides(["training.warmup=2", "training.patience=1000"])
    data = make_training_data(graph, config, arguments.seed, device)
    state = begin_training(data, graph.num_classes, config, Key.of(arguments.seed), device)
    training.validate = lambda *_, **__: 0.0
    train_epochs(state, data, config.with_overrides(["training.epochs=1"]), Key.of(arguments.seed))

    def ours() -> None:
        state.best_epoch = state.epoch
        config_now = config.with_overrides([f"training.epochs={state.epoch - config.training.warmup + 1}"])
        train_epochs(state, data, config_now, Key.of(arguments.seed))
        _wait(device)

    settings = Settings(width=config.representation.width)
    inputs = inputs_of(make_task(graph, arguments.seed), device)
    network = graphsage(inputs, settings).to(device)
    optimiser = torch.optim.Adam(network.parameters(), lr=settings.learning_rate)

    def peer() -> None:
        for loss in sampled_batches(network, inputs, settings):
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
        _wait(device)

    seconds = interleaved_seconds({"gdpnet": ours, "graphsage": peer}, arguments.repeats)
    metrics = {
        "ratio": median_ratio(seconds["gdpnet"], seconds["graphsage"]),
        **{f"{name}_seconds": statistics.median(values) for name, values in seconds.items()},
        "device": arguments.device if device.type == "cpu" else torch.cuda.get_device_name(),
        "batch": BATCH,
        "fan_out": list(FAN_OUT),
        "training_nodes": data.targets.numel(),
    }
    write_record(arguments.results, "epoch", metrics, config.to_dict())


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


if __name__ == "__main__":
    main()
