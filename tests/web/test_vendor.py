"""The libraries of the page are the files that the manifest names."""

import hashlib
import json
from importlib.resources import files

FOLDER = files("gdpnet.web").joinpath("vendor")
PACKAGES = json.loads(FOLDER.joinpath("manifest.json").read_text(encoding="utf-8"))["packages"]


def test_every_file_has_the_checksum_of_the_manifest():
    for package in PACKAGES:
        for one in package["files"]:
            content = FOLDER.joinpath(one["file"]).read_bytes()
            assert hashlib.sha256(content).hexdigest() == one["sha256"], one["file"]


def test_no_file_is_there_that_the_manifest_does_not_name():
    named = {one["file"] for package in PACKAGES for one in package["files"]}
    assert {path.name for path in FOLDER.iterdir()} == named | {"manifest.json"}


def test_every_library_is_free_to_ship_and_brings_its_licence():
    for package in PACKAGES:
        assert package["licence"] == "MIT"
        (licence,) = (one["file"] for one in package["files"] if one["from"] == "LICENSE")
        assert "Permission is hereby granted" in FOLDER.joinpath(licence).read_text(encoding="utf-8")
        assert len(package["version"].split(".")) == 3
