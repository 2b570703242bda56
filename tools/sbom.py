"""Add to a bill of materials what its tool cannot see: the package's version and its JavaScript libraries.

python tools/sbom.py dist/gdpnet.cdx.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from gdpnet import __version__

MANIFEST = Path(__file__).resolve().parents[1] / "src" / "gdpnet" / "web" / "vendor" / "manifest.json"


def completed(bom: dict[str, Any], packages: list[dict[str, Any]], version: str) -> dict[str, Any]:
    """Return a CycloneDX document with a version of its main component, and components for shipped libraries."""
    main = bom["metadata"]["component"] | {"version": version, "purl": f"pkg:pypi/gdpnet@{version}"}
    shipped = [_component(one) for one in packages]
    names = [one["bom-ref"] for one in shipped]
    dependencies = [
        one | {"dependsOn": sorted({*one.get("dependsOn", []), *names})}
        if one["ref"] == main["bom-ref"]
        else one
        for one in bom["dependencies"]
    ]
    return bom | {
        "metadata": bom["metadata"] | {"component": main},
        "components": bom["components"] + shipped,
        "dependencies": dependencies + [{"ref": name} for name in names],
    }


def _component(package: dict[str, Any]) -> dict[str, Any]:
    """Return the component of a library whose files are part of the package."""
    name = f"pkg:npm/{package['name']}@{package['version']}"
    files = [
        {"type": "file", "name": one["file"], "hashes": [{"alg": "SHA-256", "content": one["sha256"]}]}
        for one in package["files"]
    ]
    return {
        "type": "library",
        "bom-ref": name,
        "name": package["name"],
        "version": package["version"],
        "purl": name,
        "licenses": [{"license": {"id": package["licence"]}}],
        "components": files,
    }


def main() -> int:
    """Complete a file in place."""
    path = Path(sys.argv[1])
    packages = json.loads(MANIFEST.read_text(encoding="utf-8"))["packages"]
    bom = completed(json.loads(path.read_text(encoding="utf-8")), packages, __version__)
    path.write_text(json.dumps(bom, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
