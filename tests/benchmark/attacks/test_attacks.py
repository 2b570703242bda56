"""Attacks keep to their budget, do more harm than chance and depend on their seed; the command records them."""

from dataclasses import dataclass, field

import pytest
import torch

from gdpnet.benchmark.attacks.attacker import ATTACKS, Attacker, random_flips
from gdpnet.benchmark.attacks.prbcd import attack_relaxed
from gdpnet.benchmark.attacks.problem import Problem
from gdpnet.benchmark.attacks.search import attack_predictions
from gdpnet.benchmark.attacks.settings import AttackSettings
from gdpnet.benchmark.attacks.summary import WORST, summarise
from gdpnet.benchmark.attacks.victims import fit_victim
from gdpnet.benchmark.records import read_records
from gdpnet.data.datasets.synthetic import SyntheticSettings, synthetic_graph
from gdpnet.data.noise import adversarial
from helpers.commands import last_record, refuse, succeed
from helpers.small import FAST, write_folder

CLEAN = SyntheticSettings(
    nodes=150,
    classes=3,
    words=200,
    topics_per_class=4,
    spurious_links=0.0,
    corrupted_features=0.0,
    wrong_labels=0.0,
)
TRAINED = FAST.with_values(
    {
        "training": {"epochs": 8, "warmup": 4},
        "representation": {"width": 16},
        "gcn": {"use": True, "min_validation": 10},
    }
)
SMALL = AttackSettings(steps=24, block=1500, samples=6, queries=30)


@pytest.fixture(scope="module")
def graph():
    return synthetic_graph(CLEAN)


@pytest.fixture(scope="module", params=["gdpnet", "gcn", "gnnguard", "jaccard-gcn:0.9"])
def victim(request, graph):
    return fit_victim(request.param, graph, 0, TRAINED, {}, "cpu")


@pytest.mark.parametrize("attack", [attack_relaxed, attack_predictions])
def test_an_attack_hurts_more_than_as_many_random_flips_and_keeps_to_its_budget(attack, victim, graph):
    problem = Problem.of(graph, 0.25)
    found = attack(victim, problem, SMALL, 0)
    assert 0 < found.flips.numel() <= problem.budget
    assert torch.equal(found.flips, torch.unique(found.flips))
    attacked = victim.scores(problem.flipped(found.flips))
    assert problem.accuracy(attacked) == found.accuracy
    by_chance = [problem.accuracy(victim.scores(problem.flipped(random_flips(problem, n)))) for n in range(3)]
    assert problem.accuracy(victim.scores(graph)) > 0.7
    assert found.accuracy < min(by_chance) - 0.05


@pytest.mark.parametrize("attack", [attack_relaxed, attack_predictions])
def test_an_attack_depends_on_its_seed_alone_and_restores_the_state_of_torch(attack, graph):
    victim, problem = fit_victim("gcn", graph, 0, FAST, {}, "cpu"), Problem.of(graph, 0.1)
    torch.manual_seed(3)
    expected = torch.rand(3)
    torch.manual_seed(3)
    first = attack(victim, problem, SMALL, 1)
    assert torch.equal(torch.rand(3), expected)
    assert torch.equal(first.flips, attack(victim, problem, SMALL, 1).flips)
    assert not torch.equal(first.flips, attack(victim, problem, SMALL, 2).flips)


@dataclass
class Counted:
    """A victim that counts its predictions and has no gradients."""

    inner: object
    asked: list = field(default_factory=list)

    def scores(self, graph):
        self.asked.append(graph.num_edges)
        return self.inner.scores(graph)

    def relax(self, graph, candidates):
        pytest.fail("a black-box search must not see the model")


def test_a_search_asks_as_often_as_it_may_and_never_for_more_flips_than_the_budget(graph):
    victim, problem = Counted(fit_victim("gcn", graph, 0, FAST, {}, "cpu")), Problem.of(graph, 0.1)
    found = attack_predictions(victim, problem, SMALL, 0)
    assert found.queries == len(victim.asked) == SMALL.queries
    assert max(abs(edges - graph.num_edges) for edges in victim.asked) <= 2 * problem.budget


def test_a_search_from_other_flips_is_no_worse_than_these(graph):
    victim, problem = Counted(fit_victim("gcn", graph, 0, FAST, {}, "cpu")), Problem.of(graph, 0.1)
    start = random_flips(problem, 0)
    found = attack_predictions(victim, problem, SMALL, 0, start)
    assert len(victim.asked) == SMALL.queries
    assert found.accuracy <= problem.accuracy(victim.scores(problem.flipped(start)))
    assert found.flips.numel() <= problem.budget


def test_attacks_without_a_budget_change_nothing(graph):
    victim = fit_victim("gcn", graph, 0, FAST, {}, "cpu")
    attacks = Attacker(victim, graph, SMALL, 0, lambda rate: pytest.fail("nothing to transfer"))
    for name in ATTACKS:
        assert attacks.attack(name, 0.0).flips.numel() == 0


@pytest.fixture
def small_transfer(monkeypatch):
    for name, value in {"BLOCK": 2000, "STEPS": 10, "EPOCHS": 20}.items():
        monkeypatch.setattr(adversarial, name, value)


FEW = ("--seeds", 1, "--rates", "0.1", "--steps", 4, "--block", 200, "--queries", 4, "--device", "cpu")


@pytest.mark.slow
def test_the_command_records_every_attack_once_and_reports_the_worst(tmp_path, graph, capsys, small_transfer):
    folder, path = write_folder(tmp_path / "mine", graph), tmp_path / "attacks.jsonl"
    words = ("attack", "--dataset", folder, "--records", path, "--methods", "gcn,jaccard-gcn:0.8", *FEW)
    words = (*words, "--tuned", tmp_path / "none.jsonl", "--no-edge-features")
    succeed(capsys, *words)
    records = read_records(path)
    assert len(records) == 2 * (1 + len(ATTACKS))
    assert {record["attack"] for record in records} == {"none", *ATTACKS}
    for record in records:
        metrics, each = record["metrics"], record["metrics"]["edges_before"] // 2
        changed = (metrics["edges_added"] + metrics["edges_removed"]) // 2
        assert changed <= metrics["budget"] == round(record["rate"] * each)
        moved = metrics["edges_added"] - metrics["edges_removed"]
        assert metrics["edges_after"] == metrics["edges_before"] + moved
        assert record["protocol"]["test"] == graph.nodes_in("test").numel()
    out = last_record(succeed(capsys, *words, "--json", "--report-only"))
    assert out["rows"]
    succeed(capsys, *words)
    assert len(read_records(path)) == len(records)
    rows = {(row.method, row.attack): row for row in summarise(records)}
    least = min(rows["gcn", name].mean for name in ATTACKS)
    assert rows["gcn", WORST].mean == least
    succeed(capsys, *words, "--poisoning", "--attacks", "random")
    added = read_records(path)[len(records) :]
    assert [(one["setting"], one["attack"]) for one in added] == [("poisoning", "random")] * 2


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--methods", "gat"), "a method to attack must be one of gdpnet"),
        (("--methods", "jaccard-gcn:2"), "must lie between 0 and 1, found '2'"),
        (("--attacks", "adaptve"), "there is no attack 'adaptve'"),
        (("--rates", "0"), "a budget must be a share of the links between 0 and 1, found 0"),
    ],
)
def test_what_cannot_be_attacked_is_refused_in_one_sentence(words, sentence, tmp_path, capsys):
    fixed = ("attack", "--dataset", "synthetic", "--records", tmp_path / "a.jsonl", "--device", "cpu")
    assert sentence in refuse(capsys, *fixed, *words)
