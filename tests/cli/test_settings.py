"""The command settings: every setting with its sentence, default and allowed values."""

from dataclasses import fields

import pytest

from gdpnet.cli.settings import describe_settings, settings_markdown
from gdpnet.config import Config
from helpers.commands import last_record, refuse, succeed


def test_every_setting_is_shown_with_its_default_and_its_sentence(capsys):
    out = " ".join(succeed(capsys, "settings").replace("│", " ").split())
    for section in describe_settings():
        assert f"[{section['name']}]" in out
        for item in section["settings"]:
            assert f" {item['name']} " in out
    assert "discount 0.95 0 to 1 discount factor" in out


def test_one_section_is_shown_on_its_own(capsys):
    out = succeed(capsys, "settings", "ppo")
    assert "kl_limit" in out
    assert "label_error_gap" not in out


def test_an_unknown_section_is_refused_with_the_nearest_name(capsys):
    assert refuse(capsys, "settings", "polcy") == (
        "there is no section 'polcy' of settings; did you mean 'policy'?"
    )


def test_json_holds_the_defaults_of_the_config(capsys):
    record = last_record(succeed(capsys, "settings", "--json"))
    found = {
        section["name"]: {item["name"]: item["default"] for item in section["settings"]}
        for section in record["sections"]
    }
    assert found == Config().to_dict()


@pytest.mark.parametrize(
    ("section", "name", "allowed"),
    [
        ("ppo", "discount", "0 to 1"),
        ("ppo", "passes", "at least 1"),
        ("policy", "order", "learned, random"),
        ("policy", "early_stop", "true, false"),
        ("policy", "hidden", "2 numbers, at least 1"),
        ("threshold", "candidates", "list of numbers, 0 to 1"),
        ("reward", "clip", "at least 1e-06"),
    ],
)
def test_allowed_values_are_a_range_or_a_list_of_choices(section, name, allowed):
    (found,) = describe_settings(section)
    assert {item["name"]: item["allowed"] for item in found["settings"]}[name] == allowed


def test_the_markdown_has_one_table_per_section_and_one_row_per_setting(capsys):
    text = settings_markdown()
    assert succeed(capsys, "settings", "--markdown") == text
    sections = fields(Config())
    assert text.count("\n## ") + text.startswith("## ") == len(sections)
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    assert len(rows) == sum(len(fields(getattr(Config(), section.name))) for section in sections)
    assert all(line.count(" | ") == 3 for line in rows)
    assert "| `early_stop` | `true` | true, false |" in text
