"""The bill of materials names the package's version, and the libraries whose files are part of the package."""

import json

from tools.sbom import MANIFEST, completed

BOM = {
    "bomFormat": "CycloneDX",
    "metadata": {"component": {"bom-ref": "root", "name": "gdpnet", "type": "library"}},
    "components": [{"bom-ref": "numpy==2", "name": "numpy", "type": "library", "version": "2"}],
    "dependencies": [{"ref": "root", "dependsOn": ["numpy==2"]}, {"ref": "numpy==2"}],
}


def test_shipped_libraries_are_components_that_the_package_depends_on():
    packages = json.loads(MANIFEST.read_text())["packages"]
    bom = completed(BOM, packages, "1.2.3")
    assert bom["metadata"]["component"]["version"] == "1.2.3"
    names = {one["bom-ref"] for one in bom["components"]}
    assert {f"pkg:npm/{one['name']}@{one['version']}" for one in packages} < names
    (root,) = (one for one in bom["dependencies"] if one["ref"] == "root")
    assert set(root["dependsOn"]) == names
    assert {one["ref"] for one in bom["dependencies"]} == names | {"root"}
    (first, *_) = (one for one in bom["components"] if one["name"] == packages[0]["name"])
    assert first["components"][0]["hashes"][0]["content"] == packages[0]["files"][0]["sha256"]
