"""Settings: the defaults of the paper, round trips, and errors that name what is wrong."""

import dataclasses
import math

import numpy as np
import pytest

from gdpnet.config import Config, PPOSettings, checked_seed, read_config, shipped_config, upgrade_settings
from gdpnet.errors import ConfigError

# --- values ---


def test_defaults_are_those_of_the_paper():
    config = Config()
    assert config.representation.width == 128
    assert config.policy.hidden == (64, 36)
    assert config.ppo.batch_size == 256
    assert config.representation.batch_size == 256


@pytest.mark.parametrize(
    ("name", "discount"), [("cora", 0.95), ("dblp", 0.95), ("pubmed", 0.9), ("citeseer", 1.0)]
)
def test_each_dataset_ships_the_discount_of_the_paper_and_its_sizes(name, discount):
    config = shipped_config(name)
    assert config.ppo.discount == discount
    assert (config.representation.width, config.policy.hidden) == (128, (64, 36))
    assert (config.ppo.batch_size, config.representation.batch_size) == (256, 256)


def test_a_graph_without_shipped_settings_has_the_defaults():
    assert shipped_config("mygraph") == Config()


def test_a_toml_file_beside_the_users_folder_is_not_taken_for_shipped_settings(tmp_path):
    (tmp_path / "mine.toml").write_text("[training]\nepochs = 1\n")
    assert shipped_config(str(tmp_path / "mine")) == Config()


def test_settings_cannot_be_changed_in_place():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Config().ppo.discount = 0.5


# --- TOML ---

CHANGED = Config().with_values(
    {
        "policy": {"hidden": [7, 5], "order": "random", "early_stop": False},
        "ppo": {"learning_rate": 1e-7, "discount": 0.1 + 0.2},
        "reward": {"kind": "paper", "clip": math.inf},
        "inference": {"mode": "greedy"},
    }
)


@pytest.mark.parametrize("config", [Config(), CHANGED], ids=["defaults", "changed"])
def test_settings_written_as_toml_are_read_back_equal(config, tmp_path):
    path = tmp_path / "config.toml"
    path.write_text(config.to_toml(), encoding="utf-8")
    assert read_config(path) == config


def test_every_setting_stands_in_the_toml_with_its_sentence():
    blocks = [block.strip().splitlines() for block in CHANGED.to_toml().split("\n\n")]
    sections = {block[0]: block[1:] for block in blocks}
    for section in dataclasses.fields(CHANGED):
        lines = sections.pop(f"[{section.name}]")
        for item, line in zip(dataclasses.fields(getattr(CHANGED, section.name)), lines, strict=True):
            assert line.startswith(f"{item.name} = ")
            assert line.endswith(f"  # {item.metadata['about']}")
    assert sections == {}


def test_what_a_file_leaves_out_has_its_default(tmp_path):
    path = tmp_path / "config.toml"
    path.write_text("[ppo]\ndiscount = 0.5\n")
    assert read_config(path) == Config(ppo=PPOSettings(discount=0.5))


def test_a_nested_dictionary_holds_plain_values_and_makes_the_same_settings():
    values = CHANGED.to_dict()
    assert values["policy"]["hidden"] == [7, 5]
    assert Config().with_values(values) == CHANGED


# --- overrides ---


def test_overrides_are_read_as_toml_values_and_the_last_one_holds():
    config = Config().with_overrides(
        [
            "training.epochs=3",
            "training.epochs = 4",
            "policy.hidden=[8, 6]",
            "policy.early_stop=false",
            "reward.kind=paper",
            'policy.order="random"',
            "ppo.discount=1",
        ]
    )
    assert config.training.epochs == 4
    assert config.policy.hidden == (8, 6)
    assert config.policy.early_stop is False
    assert (config.reward.kind, config.policy.order) == ("paper", "random")
    assert config.ppo.discount == 1.0
    assert isinstance(config.ppo.discount, float)


def test_an_override_changes_nothing_else_and_not_the_original():
    config = Config()
    changed = config.with_overrides(["ppo.clip=0.3"])
    assert changed.to_dict() == config.to_dict() | {"ppo": config.to_dict()["ppo"] | {"clip": 0.3}}
    assert config == Config()


@pytest.mark.parametrize("word", ["training.epochs", "epochs=3", "training.=3", "", "training=3"])
def test_an_override_without_section_key_and_value_is_refused(word):
    with pytest.raises(ConfigError, match=r"form section\.key=value, found"):
        Config().with_overrides([word])


def test_an_override_holds_one_value():
    assert Config().with_overrides(["policy.hidden=[8,\n6]"]).policy.hidden == (8, 6)
    for more in ("1\n[policy]\nhidden=-1", "1\nseed = 3"):
        with pytest.raises(ConfigError, match="an override must have one value, found more"):
            Config().with_overrides([f"training.epochs={more}"])


# --- what is refused ---


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ("trainin.epochs=3", "there is no section 'trainin' of settings; did you mean 'training'?"),
        ("training.epoch=3", "there is no setting 'training.epoch'; did you mean 'epochs'?"),
        ("ppo.discont=0.5", "there is no setting 'ppo.discont'; did you mean 'discount'?"),
        (
            "inference.zzz=1",
            "there is no setting 'inference.zzz'; known are context_episodes, episodes, mode, symmetrise",
        ),
        ("training.epochs=many", "training.epochs must be a whole number, found 'many'"),
        ("training.epochs=2.0", "training.epochs must be a whole number, found 2.0"),
        ("training.epochs=true", "training.epochs must be a whole number, found True"),
        ("ppo.discount=[1]", r"ppo.discount must be a number, found [1]"),
        ("ppo.discount=nan", "ppo.discount must be a number, found nan"),
        ("policy.early_stop=1", "policy.early_stop must be true or false, found 1"),
        ("policy.hidden=64", "policy.hidden must be a list of 2 numbers, found 64"),
        ("policy.hidden=[64, 36, 12]", "policy.hidden must be a list of 2 numbers, found [64, 36, 12]"),
        ("policy.hidden=[64, 0]", "policy.hidden must be at least 1, found 0"),
        ("reward.kind=papre", "reward.kind must be one of paper, counterfactual, marginal, found 'papre'"),
        ("reward.kind=3", "reward.kind must be one of paper, counterfactual, marginal, found 3"),
        ("training.epochs=0", "training.epochs must be at least 1, found 0"),
        ("ppo.discount=1.01", "ppo.discount must be between 0.0 and 1.0, found 1.01"),
        (
            "training.perturbed_graphs=101",
            "training.perturbed_graphs must be between 1 and 100, found 101",
        ),
        ("clusters.shuffles=1001", "clusters.shuffles must be between 1 and 1000, found 1001"),
        ("ppo.discount=-0.1", "ppo.discount must be between 0.0 and 1.0, found -0.1"),
        ("representation.dropout=1.0", "representation.dropout must be between 0.0 and 0.99, found 1.0"),
    ],
)
def test_a_wrong_setting_is_named_with_what_must_hold_and_what_was_found(override, sentence):
    with pytest.raises(ConfigError) as refusal:
        Config().with_overrides([override])
    assert str(refusal.value) == sentence


def test_a_section_made_in_python_checks_itself_too():
    with pytest.raises(ConfigError, match=r"^ppo\.passes must be at least 1, found 0$"):
        PPOSettings(passes=0)


def test_a_section_that_holds_a_value_instead_of_keys_is_refused(tmp_path):
    path = tmp_path / "config.toml"
    path.write_text("training = 3\n")
    with pytest.raises(ConfigError, match="'training' is a section of settings and must hold keys, found 3"):
        read_config(path)


@pytest.mark.parametrize("content", [b"[training\nepochs = 1\n", b"training.epochs = \n", b"\xff\xfe"])
def test_a_file_that_is_not_toml_is_refused_by_name(content, tmp_path):
    path = tmp_path / "config.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match="is not valid TOML: ") as refusal:
        read_config(path)
    assert str(path) in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    "content",
    [
        b"[" * 100_000,
        b"x = " + b"[" * 3000,
        b"a." * 60_000 + b"b = 1",
        b"[training]\nepochs = " + b"9" * 5000,
        b"# " + b"\n" * 300_000,
    ],
    ids=["brackets", "deep", "dots", "digits", "large"],
)
def test_toml_that_is_deep_or_large_is_refused_in_one_sentence_and_in_no_time(content, tmp_path):
    (tmp_path / "deep.toml").write_bytes(content)
    with pytest.raises(ConfigError, match=r"deep\.toml is not valid TOML") as caught:
        read_config(tmp_path / "deep.toml")
    assert len(str(caught.value)) <= 300


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (10**400, "training.epochs must be at most"),
        (-(10**5000), "training.epochs must be at least 1"),
        ([10**5000], "training.epochs must be a whole number, found a value of type list"),
        (float("nan"), "training.epochs must be a whole number, found nan"),
    ],
    ids=["large", "negative", "list", "nan"],
)
def test_numbers_that_no_array_holds_are_refused(value, sentence):
    with pytest.raises(ConfigError, match=sentence):
        Config().with_values({"training": {"epochs": value}})


def test_an_override_of_many_digits_or_levels_is_refused_in_one_sentence():
    for text in ("9" * 5000, "[" * 3000):
        with pytest.raises(ConfigError, match=r"training.epochs must be a whole number, found '") as caught:
            Config().with_overrides([f"training.epochs={text}"])
        assert len(str(caught.value)) <= 300


def test_what_is_no_section_of_settings_is_refused():
    with pytest.raises(ConfigError, match="'training' must be TrainingSettings, found int"):
        dataclasses.replace(Config(), training=5)


@pytest.mark.parametrize("seed", [-1, 2**63, 2**70, 10**5000, 1.5, "7", None, True], ids=type)
def test_a_seed_is_a_whole_number_of_at_most_63_bits(seed):
    checked_seed(2**63 - 1)
    with pytest.raises(ConfigError, match="the seed must be a whole number from 0 to"):
        checked_seed(seed)


@pytest.mark.parametrize("kind", [np.int32, np.int64, np.uint64])
def test_a_seed_of_another_type_is_the_same_seed(kind):
    assert type(checked_seed(kind(7))) is int
    assert checked_seed(kind(7)) == 7


def test_a_config_file_that_is_not_there_is_refused_by_name(tmp_path):
    with pytest.raises(ConfigError) as refusal:
        read_config(tmp_path / "none.toml")
    sentence = f"cannot read the config file {tmp_path / 'none.toml'}: No such file or directory"
    assert str(refusal.value) == sentence


# --- settings of 0.1 ---

CONSTANTS_OF_0_1 = {
    "training": {
        "perturbed_graphs": 4,
        "label_error_deviations": 3.0,
        "label_error_min_per_class": 20,
        "label_error_every": 5,
        "part_fan_out": [256, 4],
    },
    "hopwise": {
        "margin_alone": 2.0,
        "margin_together": 1.0,
        "shares": [0.5, 1.0],
        "max_weights": 20_000_000,
        "max_values": 100_000_000,
    },
    "gcn": {
        "layers": 3,
        "weight": 0.5,
        "learning_rate": 0.01,
        "weight_decay": 5e-4,
        "epochs": 300,
        "patience": 50,
        "evaluate_every": 10,
        "min_validation": 100,
        "max_edges": 500_000,
        "max_weights": 20_000_000,
    },
    "threshold": {
        "candidates": [0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6],
        "without_validation": 0.5,
        "margin": 1.0,
        "penalty": 1e-3,
        "steps": 60,
    },
    "inference": {"context_episodes": 2},
    "propagation": {"restart": 0.15, "steps": 10},
    "links": {
        "width": 64,
        "length": 1.8,
        "hidden": 0.3,
        "steps": 300,
        "evaluate_every": 10,
        "learning_rate": 0.01,
        "communities": 16,
        "supervision": 0.3,
    },
    "clusters": {"width": 256, "steps": 150, "shuffles": 10, "learning_rate": 1e-3, "restarts": 10},
}
"""What 0.1 had as constants and 0.2 made settings."""


def test_a_model_of_0_1_keeps_what_were_constants_then_whatever_the_defaults_become():
    new = upgrade_settings({"policy": {"hops": 1}, "reader": {"use": True, "deep": True}})
    for section, values in CONSTANTS_OF_0_1.items():
        assert {name: new[section][name] for name in values} == values


def test_a_config_file_with_a_byte_order_mark_is_read(tmp_path):
    path = tmp_path / "config.toml"
    path.write_bytes(b"\xef\xbb\xbf[training]\nepochs = 7\n")
    assert read_config(path).training.epochs == 7


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_a_config_file_that_is_not_utf_8_is_refused_with_the_line(mark, tmp_path):
    path = tmp_path / "config.toml"
    path.write_bytes(mark + b"[training]\n\xe9 = 7\n")
    with pytest.raises(
        ConfigError, match="must be text in UTF-8, found other bytes in line 2; save it as UTF-8"
    ):
        read_config(path)
