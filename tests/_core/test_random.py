"""Random numbers: named streams that share no draws, and draws by key that are uniform and reproducible."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gdpnet._core.random import Key, gumbels, keys, uniforms
from gdpnet.training import trainer
from gdpnet.training.callbacks import OnEpoch
from gdpnet.training.data import make_training_data
from gdpnet.training.state import begin_training
from gdpnet.training.trainer import train_epochs
from helpers.small import FAST, noisy_graph

MANY = 200_000

# --- named streams ---


def first_draws(key: Key) -> tuple[int, ...]:
    """Return the first numbers of a stream."""
    return tuple(torch.randint(2**62, (4,), generator=key.generator()).tolist())


def test_the_same_names_give_the_same_stream():
    one, other = (Key.of(3).fold_in("epoch", 7).fold_in("batches") for _ in range(2))
    assert one == other
    assert one.seed32 == other.seed32
    assert first_draws(one) == first_draws(other)


def test_a_generator_always_starts_at_the_beginning_of_its_stream():
    key = Key.of(0).fold_in("weights")
    assert first_draws(key) == first_draws(key)


def test_streams_differ_by_seed_name_number_order_and_depth():
    root = Key.of(0)
    streams = [
        root,
        Key.of(1),
        root.fold_in("a"),
        root.fold_in("b"),
        root.fold_in("a", 1),
        root.fold_in("a", 2),
        root.fold_in("a", "1"),
        root.fold_in("a").fold_in("b"),
        root.fold_in("b").fold_in("a"),
        root.fold_in("a", "b"),
        Key.of(1).fold_in("a"),
    ]
    assert len(set(streams)) == len(streams)
    assert len({key.seed32 for key in streams}) == len(streams)
    assert len({first_draws(key) for key in streams}) == len(streams)


@given(st.integers(0, 2**40), st.integers(0, 10**6))
def test_a_key_fits_generators_of_63_bits_and_libraries_of_32(seed, number):
    key = Key.of(seed).fold_in("any", number)
    assert 0 <= key.value < 2**63
    assert 0 <= key.seed32 < 2**32


@pytest.mark.slow
def test_no_epoch_replays_the_draws_of_another(monkeypatch):
    # seeds that grew by a constant per epoch made the perturbed graphs of one epoch replay a later one
    epochs, used = 70, []
    generator, seed32 = Key.generator, Key.seed32.fget

    def watched(key: Key, device: torch.device | str = "cpu") -> torch.Generator:
        used.append(("generator", first_draws_of(generator(key))))
        return generator(key, device)

    def watched_seed(key: Key) -> int:
        used.append(("seed", seed32(key)))
        return seed32(key)

    def first_draws_of(stream: torch.Generator) -> tuple[int, ...]:
        return tuple(torch.randint(2**62, (4,), generator=stream).tolist())

    config = FAST.with_values(
        {
            "training": {"epochs": epochs, "warmup": 0, "injected": 0.5, "patience": epochs},
            "ppo": {"passes": 1, "max_targets": 4},
            "representation": {"max_steps": 1},
        }
    )
    cpu, key, graph = torch.device("cpu"), Key.of(0), noisy_graph(30)
    data = make_training_data(graph, config, 0, cpu)
    state = begin_training(data, graph.num_classes, config, key, cpu)
    # every epoch is evaluated on the same draws, on purpose
    monkeypatch.setattr(trainer, "validate", lambda *_, **__: 0.0)
    monkeypatch.setattr(trainer, "measure_injected_auc", lambda *_: None)
    monkeypatch.setattr(Key, "generator", watched)
    monkeypatch.setattr(Key, "seed32", property(watched_seed))
    counts = []
    train_epochs(state, data, config, key, [OnEpoch(lambda _: counts.append(len(used)))])
    # targets, neighbourhoods, order and episodes on the genuine and on a perturbed graph; batches; selected edges
    assert counts == [10 * number for number in range(1, epochs + 1)]
    assert len(set(used)) == len(used)


# --- draws by key ---


def draws(seed: int = 0, counter: int = 0) -> torch.Tensor:
    """Return many draws of neighbouring keys, as a hub's candidates have them."""
    number = torch.arange(MANY)
    return uniforms(keys(seed, torch.zeros_like(number), number), counter)


def correlation(left: torch.Tensor, right: torch.Tensor) -> float:
    return float(torch.corrcoef(torch.stack([left, right]))[0, 1])


def test_draws_of_near_keys_are_uniform():
    drawn = draws()
    assert float(drawn.mean()) == pytest.approx(0.5, abs=0.003)
    assert float(drawn.var()) == pytest.approx(1 / 12, abs=0.001)
    shares = torch.histc(drawn, bins=20, min=0.0, max=1.0) / MANY
    assert torch.allclose(shares, torch.full((20,), 0.05), atol=0.003)


@given(st.integers(-(2**31), 2**31 - 1), st.integers(0, 2**20))
def test_every_draw_lies_strictly_between_zero_and_one(key, counter):
    drawn = float(uniforms(torch.tensor([key], dtype=torch.int32), counter))
    assert 0.0 < drawn < 1.0


def test_the_smallest_draw_is_above_zero():
    # the key that makes every bit of the first draw zero
    assert float(uniforms(torch.tensor([-0x7F4A7C15], dtype=torch.int32), 0)) == 2.0**-24


def test_gumbels_are_finite_and_have_the_mean_and_variance_of_their_law():
    number = torch.arange(MANY)
    drawn = gumbels(keys(3, number), 0)
    assert bool(torch.isfinite(drawn).all())
    assert float(drawn.mean()) == pytest.approx(0.5772, abs=0.015)
    assert float(drawn.var()) == pytest.approx(1.6449, abs=0.04)


def test_a_draw_depends_on_its_key_and_counter_alone():
    together = draws()
    picked = torch.tensor([7, 100, 4])
    alone = uniforms(keys(0, torch.zeros_like(picked), picked), 0)
    assert torch.equal(alone, together[picked])


def test_other_counts_seeds_and_neighbouring_keys_give_unrelated_draws():
    drawn = draws()
    for other in (draws(counter=1), draws(counter=2), draws(seed=1), drawn.roll(1)):
        assert abs(correlation(drawn, other)) < 0.01


def test_a_key_tells_its_parts_apart():
    left, right = torch.tensor([1, 2, 0, 5]), torch.tensor([2, 1, 5, 0])
    assert not bool((keys(0, left, right) == keys(0, right, left)).any())
    assert not bool((keys(0, left) == keys(1, left)).any())


def test_hardly_any_two_pairs_of_nodes_share_a_key():
    left, right = torch.meshgrid(torch.arange(300), torch.arange(300), indexing="ij")
    found = torch.unique(keys(0, left.flatten(), right.flatten())).numel()
    assert found > 90_000 - 10  # chance alone makes one pair in 32 bits


def test_the_largest_of_score_plus_gumbel_is_a_softmax_draw():
    scores = torch.tensor([1.0, 0.0, -1.0, 2.0])
    episode, candidate = torch.meshgrid(torch.arange(40_000), torch.arange(4), indexing="ij")
    contest = scores + gumbels(keys(1, episode, candidate), 0)
    shares = torch.bincount(contest.argmax(dim=1), minlength=4) / 40_000
    assert torch.allclose(shares, torch.softmax(scores, dim=0), atol=0.01)
