"""Model files: round trips, files of earlier versions, and files that are refused."""

import copy
import errno
import json
import pickle
import struct
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from gdpnet._core.files import atomic_path
from gdpnet.config import (
    Config,
    FeaturesSettings,
    GCNSettings,
    InferenceSettings,
    PolicySettings,
    RepresentationSettings,
    Section,
    TrainingSettings,
)
from gdpnet.data.graph import Graph
from gdpnet.errors import GDPNetError, ModelFileError
from gdpnet.estimator import GDPNet
from gdpnet.inference import model_file
from gdpnet.inference.ensemble import HeadWeights
from gdpnet.inference.model import SuspectedLabel
from gdpnet.inference.model_file import FORMAT_VERSION, read_tensors, write_tensors
from gdpnet.inference.threshold import Choice
from gdpnet.representation.aggregator import HopwiseNetwork
from gdpnet.representation.gcn import GCN
from gdpnet.representation.trees import BoostedTrees
from helpers.small import FAST, fitted, noisy_graph

TENSORS = {
    "matrix": torch.arange(6.0).reshape(2, 3),
    "number": torch.tensor(0.1),
    "empty": torch.zeros(0, 4),
    "whole": torch.tensor([1, -(2**60)]),
}
ABOUT = {"name": "Zürich", "numbers": [1, 2.5], "nothing": None}


@pytest.fixture
def path(tmp_path) -> Path:
    file = tmp_path / "model.safetensors"
    write_tensors(file, "model", TENSORS, ABOUT)
    return file


def refusal(path: Path, kind: str = "model") -> str:
    """Return the sentence with which a file is refused."""
    with pytest.raises(ModelFileError) as caught:
        read_tensors(path, kind)
    sentence = str(caught.value)
    assert str(path) in sentence
    assert "\n" not in sentence
    return sentence


def header_of(content: bytes) -> tuple[dict, bytes]:
    """Part a safetensors file into its header and its data."""
    (length,) = struct.unpack("<Q", content[:8])
    return json.loads(content[8 : 8 + length]), content[8 + length :]


def with_header(path: Path, change) -> None:
    """Rewrite a file with another header."""
    header, data = header_of(path.read_bytes())
    change(header)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


# --- what comes back ---


def test_tensors_and_what_is_known_about_them_come_back_as_they_were(path):
    tensors, about = read_tensors(path, "model")
    assert about == ABOUT
    assert tensors.keys() == TENSORS.keys()
    for name, tensor in TENSORS.items():
        assert tensors[name].dtype == tensor.dtype
        assert torch.equal(tensors[name], tensor)


def test_a_view_of_a_larger_tensor_is_written_alone(tmp_path):
    large = torch.arange(1000.0).reshape(10, 100)
    write_tensors(tmp_path / "a", "model", {"view": large[:, 3], "turned": large.T}, {})
    tensors, _ = read_tensors(tmp_path / "a", "model")
    assert torch.equal(tensors["view"], large[:, 3])
    assert torch.equal(tensors["turned"], large.T)


def test_the_same_content_has_the_same_checksum_and_other_content_another(path, tmp_path):
    def checksum(file: Path) -> str:
        return header_of(file.read_bytes())[0]["__metadata__"]["sha256"]

    write_tensors(tmp_path / "again", "model", TENSORS, ABOUT)
    write_tensors(tmp_path / "other", "model", TENSORS | {"number": torch.tensor(0.2)}, ABOUT)
    assert checksum(tmp_path / "again") == checksum(path)
    assert checksum(tmp_path / "other") != checksum(path)


def test_the_file_carries_its_kind_and_version_for_other_programs(path):
    metadata = header_of(path.read_bytes())[0]["__metadata__"]
    assert metadata["format"] == "gdpnet-model"
    assert metadata["format_version"] == str(FORMAT_VERSION)
    assert json.loads(metadata["about"]) == ABOUT


# --- what is refused ---


def test_a_file_cut_short_anywhere_is_refused(path):
    content = path.read_bytes()
    for length in (0, 4, 8, 40, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:length])
        assert "is not a readable model file, it may be cut short" in refusal(path)


def test_a_file_with_bytes_added_is_refused(path):
    path.write_bytes(path.read_bytes() + b"\0")
    assert "is not a readable model file" in refusal(path)


def test_one_flipped_bit_of_the_data_is_refused(path):
    content = path.read_bytes()
    data = len(header_of(content)[1])
    for place in (len(content) - data, len(content) - data // 2, len(content) - 1):
        flipped = bytearray(content)
        flipped[place] ^= 1
        path.write_bytes(flipped)
        assert "was changed after it was written: its checksum does not fit its content" in refusal(path)


def test_changed_metadata_is_refused(path):
    def change(header: dict) -> None:
        header["__metadata__"]["about"] = header["__metadata__"]["about"].replace("2.5", "3.5")

    with_header(path, change)
    assert "its checksum does not fit its content" in refusal(path)


def test_a_tensor_under_another_name_is_refused(path):
    with_header(path, lambda header: header.update({"matrices": header.pop("matrix")}))
    assert "its checksum does not fit its content" in refusal(path)


@pytest.mark.parametrize(("kind", "shape"), [("I32", [2, 3]), ("F32", [3, 2]), ("BF16", [4, 3])])
def test_a_tensor_read_in_another_way_is_refused(path, kind, shape):
    with_header(path, lambda header: header["matrix"].update(dtype=kind, shape=shape))
    assert "its checksum does not fit its content" in refusal(path)


def test_a_missing_checksum_is_refused(path):
    with_header(path, lambda header: header["__metadata__"].pop("sha256"))
    assert "its checksum does not fit its content" in refusal(path)


def test_a_file_of_another_kind_is_refused(path):
    assert refusal(path, "checkpoint") == f"{path} is not a GDPNet checkpoint file"


def test_a_safetensors_file_of_another_program_is_refused(tmp_path):
    save_file({"weight": torch.ones(2)}, tmp_path / "other.safetensors")
    assert refusal(tmp_path / "other.safetensors").endswith("is not a GDPNet model file")


def test_a_file_of_a_later_format_says_which_version_is_read(path):
    with_header(path, lambda header: header["__metadata__"].update(format_version="99"))
    sentence = f"{path} has format version '99', this version of GDPNet reads 3, 4, 5, 6, 7"
    assert refusal(path) == sentence


@pytest.mark.parametrize("version", ["3", "4"])
def test_a_file_of_an_earlier_format_is_read(path, version):
    with_header(path, lambda header: header["__metadata__"].update(format_version=version))
    assert read_tensors(path, "model")[1] == ABOUT


def test_a_file_that_is_not_there_is_refused_by_name(tmp_path):
    assert refusal(tmp_path / "none") == f"there is no model file {tmp_path / 'none'}"


def test_a_folder_is_refused(tmp_path):
    assert "is not a readable model file" in refusal(tmp_path)


class Trap:
    """What runs code where it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self):
        return Path.touch, (self.mark,)


@pytest.mark.parametrize("write", [pickle.dumps, "torch"], ids=["pickle", "torch.save"])
def test_a_pickle_is_refused_and_never_run(write, tmp_path):
    file, mark = tmp_path / "model.safetensors", tmp_path / "ran"
    if write == "torch":
        torch.save({"weight": Trap(mark)}, file)
    else:
        file.write_bytes(write(Trap(mark)))
    assert "is not a readable model file" in refusal(file)
    assert not mark.exists()


def test_a_model_whose_parts_do_not_fit_together_is_refused_in_one_line(tmp_path):
    model = fitted(noisy_graph(nodes=60))
    file = tmp_path / "model.safetensors"
    model.save(file)
    tensors, about = read_tensors(file, "model")
    spoilt = [
        (tensors, about | {"columns": about["columns"] | {"width": 12}}),
        (tensors, {name: value for name, value in about.items() if name != "classes"}),
        ({name: value for name, value in tensors.items() if name != "policy.ending"}, about),
        (tensors, about | {"config": about["config"] | {"policy": {"hidden": [3, 2]}}}),
        (tensors, about | {"config": {"polic": {}}}),
        (tensors, about | {"config": 3}),
    ]
    for parts in spoilt:
        write_tensors(file, "model", *parts)
        with pytest.raises(ModelFileError, match="does not hold a whole model") as caught:
            GDPNet.load(file, device="cpu")
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"seed": "x"}, "'seed' of the description must be a whole number, found a text"),
        ({"classes": [1, 2]}, "value 1 of 'classes'"),
        ({"threshold": {"threshold": 2.0, "scores": []}}, "the threshold must lie between 0 and 1"),
        ({"ensemble": {"aggregator": -1.0}}, "the weight of a head must lie between 0 and 1"),
        ({"config": {"policy": {"hidden": [2**40, 2**40]}}}, "overflowed"),
        ({"config": {"representation": {"width": 10**12}}}, "the shape in current model"),
        ({"history": 3}, "'history' of the description must be a list"),
        ({"columns": {"kind": "own", "width": [], "names": None, "nodes": None}}, "whole model"),
    ],
)
def test_a_description_of_other_types_or_sizes_behind_a_right_checksum_is_refused(
    changed, sentence, tmp_path
):
    file = tmp_path / "model.safetensors"
    fitted(noisy_graph(nodes=60)).save(file)
    tensors, about = read_tensors(file, "model")
    write_tensors(file, "model", tensors, about | changed)
    with pytest.raises(ModelFileError, match="does not hold a whole model") as caught:
        GDPNet.load(file, device="cpu")
    assert sentence in str(caught.value)


def test_weights_that_are_not_numbers_are_refused(tmp_path):
    file = tmp_path / "model.safetensors"
    fitted(noisy_graph(nodes=60)).save(file)
    tensors, about = read_tensors(file, "model")
    tensors["aggregators.bias"][0] = float("nan")
    write_tensors(file, "model", tensors, about)
    with pytest.raises(ModelFileError, match=r"'aggregators\.bias' holds values that are not numbers"):
        GDPNet.load(file, device="cpu")


@pytest.mark.parametrize(
    ("name", "value"),
    [("left", 0), ("left", -1), ("right", 10**6), ("feature", 99), ("root", -5), ("output", 7)],
)
def test_trees_whose_knots_lead_nowhere_or_in_a_circle_are_refused(name, value):
    knots = torch.tensor([[1, 2], [1, 1], [2, 2]], dtype=torch.int32)
    tensors = {
        "left": knots[:, 0].clone(),
        "right": knots[:, 1].clone(),
        "feature": torch.zeros(3, dtype=torch.int32),
    }
    tensors |= {"threshold": torch.zeros(3), "value": torch.zeros(3), "baseline": torch.zeros(1, 2)}
    tensors |= {"root": torch.zeros(1, dtype=torch.int32), "output": torch.zeros(1, dtype=torch.int32)}
    tensors["depth"] = torch.tensor(1)
    BoostedTrees(tensors).check(4)
    tensors[name][0] = value
    with pytest.raises(ValueError, match="lead nowhere"):
        BoostedTrees(tensors).check(4)


def header(length: int | None = None, **tensors: dict) -> bytes:
    text = json.dumps(tensors).encode()
    return (len(text) if length is None else length).to_bytes(8, "little") + text


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "header says"),
        (b"\xff" * 8, "header says"),
        (header(2**40), "header says"),
        ((200_000).to_bytes(8, "little") + b"[" * 200_000, "at most 100 levels"),
        (
            header(w={"dtype": "F32", "shape": [10**12], "data_offsets": [0, 4]}) + b"\0" * 4,
            "does not lie where",
        ),
        (header(w={"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}) + b"\0" * 8, "does not lie where"),
        (
            header(w={"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}) + b"\0" * 8,
            "4 bytes after its tensors",
        ),
        (header(w={"dtype": "F99", "shape": [1], "data_offsets": [0, 4]}) + b"\0" * 4, "type or shape"),
        (header(w={"dtype": "F32", "shape": "x", "data_offsets": [0, 4]}) + b"\0" * 4, "must be a list"),
        (header(w=3), "must be an object"),
    ],
)
def test_a_header_that_lies_is_refused_before_anything_is_allocated(content, sentence, tmp_path):
    (tmp_path / "model.safetensors").write_bytes(content)
    found = refusal(tmp_path / "model.safetensors")
    assert "is not a readable model file" in found
    assert sentence in found


def test_the_file_is_one_that_safetensors_reads_and_writes(tmp_path):
    given = {"a": torch.arange(6.0).reshape(2, 3), "b": torch.zeros(0, 2), "c": torch.tensor(True)}
    write_tensors(tmp_path / "a.safetensors", "model", given, {"x": 1})
    found, about = read_tensors(tmp_path / "a.safetensors", "model")
    theirs = load_file(tmp_path / "a.safetensors")
    assert about == {"x": 1}
    assert found.keys() == theirs.keys()
    assert all(torch.equal(found[name], theirs[name]) for name in found)


# --- other versions ---


@pytest.fixture(scope="module")
def graph() -> Graph:
    return noisy_graph(60)


@pytest.fixture(scope="module")
def model(graph) -> GDPNet:
    """Return a model of all heads; those beside the aggregator have random weights."""
    config = FAST.with_values(
        {
            "policy": {"state": "neighbourhood"},
            "inference": {"symmetrise": True},
            "training": {"label_error_gap": 0.25, "max_nodes": 5000},
        }
    )
    model = fitted(graph, config)
    draws, networks = torch.Generator().manual_seed(0), copy.deepcopy(model.networks_)
    networks.hopwise = HopwiseNetwork(graph.num_features, 8, 3, networks.aggregators.fold_models, hops=3)
    networks.gcn = GCN(graph.num_features, 8, 3)
    networks.hopwise.initialise(draws)
    networks.gcn.initialise(draws)
    trained = replace(
        model.trained_,
        config=config.with_values({"hopwise": {"use": True, "evaluate_every": 10}, "gcn": {"use": True}}),
        networks=networks,
        weights=HeadWeights().with_hopwise(0.5).with_gcn(0.5),
        threshold=Choice(0.5),
        suspected_labels=(SuspectedLabel("003", "topic 0", "topic 1"),),
    )
    model._set_trained(trained)
    return model


def settings_of_0_1(config: Config) -> dict[str, dict]:
    """Return settings under the names that version 0.1 gave them; others were constants then."""
    new = config.to_dict()
    old = {name: new[name] for name in ("features", "policy", "reward", "ppo", "representation", "task")}
    state = new["policy"]["state"]
    old["policy"] = new["policy"] | {"state": {"neighbourhood": "circles"}.get(state, state)}
    same = ("epochs", "warmup", "settle", "patience", "injected", "injected_weight", "selection")
    training, hopwise, inference = new["training"], new["hopwise"], new["inference"]
    old["training"] = {name: training[name] for name in same} | {
        "doubt": training["label_error_gap"],
        "most_nodes": training["max_nodes"],
    }
    same = ("use", "dropout", "learning_rate", "weight_decay", "batch_size", "steps", "patience")
    old["reader"] = {name: hopwise[name] for name in same} | {
        "deep": new["gcn"]["use"],
        "look_every": hopwise["evaluate_every"],
    }
    old["inference"] = {
        "mode": inference["mode"],
        "episodes": inference["episodes"],
        "both_ways": inference["symmetrise"],
    }
    return old


def save_as_format_4(model: GDPNet, file: Path, monkeypatch, share: float | None = 0.5) -> None:
    """Write a model as version 0.1 did."""
    prefixes = {"hopwise.": "reader.", "gcn.": "convolutions."}
    tensors = {}
    for name, value in model.networks_.tensors().items():
        prefix = next((prefix for prefix in prefixes if name.startswith(prefix)), "")
        tensors[prefixes.get(prefix, "") + name.removeprefix(prefix)] = value
    if share is not None:
        tensors["reader.share"] = torch.tensor(share)
    about = model.trained_.about()
    about["doubted"] = about.pop("suspected_labels")
    about["num_features"] = about["columns"]["width"]
    about["config"] = settings_of_0_1(model.config_)
    del about["ensemble"]
    with monkeypatch.context() as patch:
        patch.setattr(model_file, "FORMAT_VERSION", 4)
        write_tensors(file, "model", tensors, about)


def change_defaults(monkeypatch, section: type[Section], **values: object) -> None:
    """Let a section of settings have other defaults, as a later version might."""
    init, names = section.__init__, [item.name for item in fields(section)]
    pairs = zip(names, init.__defaults__, strict=True)
    monkeypatch.setattr(init, "__defaults__", tuple(values.get(name, default) for name, default in pairs))


def change_many_defaults(monkeypatch) -> None:
    """Change defaults that decide what a model predicts."""
    change_defaults(monkeypatch, FeaturesSettings, normalise="none")
    change_defaults(monkeypatch, PolicySettings, order="random", early_stop=False, max_candidates=2)
    change_defaults(monkeypatch, RepresentationSettings, hops=1, self_weight=True)
    change_defaults(monkeypatch, InferenceSettings, mode="greedy", episodes=1, context_episodes=1)
    change_defaults(monkeypatch, GCNSettings, layers=2, weight=0.125)
    change_defaults(monkeypatch, TrainingSettings, selection=False)
    assert Config().gcn.layers == 2
    assert not Config().training.selection


def same_answers(one: GDPNet, other: GDPNet, graph: Graph) -> bool:
    """Say whether two models agree in probabilities, embeddings, keep probabilities and explanations."""
    pairs = [
        (one.predict_proba(graph), other.predict_proba(graph)),
        (one.embed(graph), other.embed(graph)),
        (one.denoise(graph).keep_probability, other.denoise(graph).keep_probability),
    ]
    alike = all(np.array_equal(mine, theirs) for mine, theirs in pairs)
    return alike and one.explain(graph, "003") == other.explain(graph, "003")


def test_a_file_of_format_4_is_the_same_model_under_the_names_of_this_version(
    model, graph, tmp_path, monkeypatch
):
    file = tmp_path / "model.safetensors"
    save_as_format_4(model, file, monkeypatch)
    assert header_of(file.read_bytes())[0]["__metadata__"]["format_version"] == "4"
    loaded = GDPNet.load(file, device="cpu")
    assert loaded.config_ == model.config_
    assert loaded.trained_.weights == model.trained_.weights == HeadWeights(0.25, 0.25, 0.5)
    assert loaded.suspected_labels_ == model.suspected_labels_
    assert loaded.threshold_ == model.threshold_
    assert same_answers(loaded, model, graph)
    loaded.save(tmp_path / "again.safetensors")
    assert same_answers(GDPNet.load(tmp_path / "again.safetensors", device="cpu"), model, graph)


def test_a_hopwise_head_of_an_old_file_without_a_share_replaces_the_aggregator(
    model, graph, tmp_path, monkeypatch
):
    save_as_format_4(model, tmp_path / "model", monkeypatch, share=None)
    loaded = GDPNet.load(tmp_path / "model", device="cpu")
    assert loaded.trained_.weights == HeadWeights(0.0, 0.5, 0.5)


def test_an_old_file_that_names_two_widths_is_refused(model, tmp_path, monkeypatch):
    file = tmp_path / "model.safetensors"
    save_as_format_4(model, file, monkeypatch)
    tensors, about = read_tensors(file, "model")
    write_tensors(file, "model", tensors, about | {"num_features": 12})
    with pytest.raises(ModelFileError, match=r"does not hold a whole model .*300 .*12"):
        GDPNet.load(file, device="cpu")


@pytest.mark.parametrize("version", [4, 5])
def test_changed_defaults_do_not_change_what_a_saved_model_predicts(
    version, model, graph, tmp_path, monkeypatch
):
    file = tmp_path / "model.safetensors"
    if version == 4:
        save_as_format_4(model, file, monkeypatch)
    else:
        model.save(file)
    expected, embedded = model.predict_proba(graph), model.embed(graph)
    probability, settings = model.denoise(graph).keep_probability, model.config_.to_dict()
    with monkeypatch.context() as patch:
        change_many_defaults(patch)
        loaded = GDPNet.load(file, device="cpu")
        assert loaded.config_.to_dict() == settings
        assert np.array_equal(loaded.predict_proba(graph), expected)
        assert np.array_equal(loaded.embed(graph), embedded)
        assert np.array_equal(loaded.denoise(graph).keep_probability, probability)


def test_every_setting_is_in_the_file(model, tmp_path):
    model.save(tmp_path / "model.safetensors")
    about = read_tensors(tmp_path / "model.safetensors", "model")[1]
    assert about["config"] == model.config_.to_dict()


# --- all or nothing ---


def test_a_write_that_fails_leaves_the_old_file_whole_and_no_other(path, monkeypatch):
    before = path.read_bytes()

    def half(self: Path, content: bytes) -> int:
        with self.open("wb") as file:
            file.write(content[: len(content) // 2])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", half)
    with pytest.raises(GDPNetError) as caught:
        write_tensors(path, "model", {"matrix": torch.ones(9)}, {})
    monkeypatch.undo()
    assert str(caught.value) == f"cannot write {path}: No space left on device"
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_an_interrupted_write_leaves_the_old_file_whole_and_no_other(path):
    before = path.read_bytes()

    def write_half() -> None:
        with atomic_path(path) as temporary:
            temporary.write_bytes(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_half()
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_the_file_is_not_there_before_it_is_whole(tmp_path):
    path = tmp_path / "new" / "file"
    with atomic_path(path) as temporary:
        temporary.write_bytes(b"whole")
        assert not path.exists()
    assert path.read_bytes() == b"whole"
    assert list(path.parent.iterdir()) == [path]


def test_a_path_below_a_file_cannot_be_written(path):
    with pytest.raises(GDPNetError, match=r"^cannot write .*: (Not a directory|File exists)$"):
        write_tensors(path / "below", "model", TENSORS, ABOUT)
    assert read_tensors(path, "model")[1] == ABOUT


def test_a_folder_in_the_place_of_the_file_cannot_be_written(tmp_path):
    (tmp_path / "taken").mkdir()
    with pytest.raises(GDPNetError, match=r"^cannot write .*: Is a directory$"):
        write_tensors(tmp_path / "taken", "model", TENSORS, ABOUT)
    assert [entry.name for entry in tmp_path.iterdir()] == ["taken"]
