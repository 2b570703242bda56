"""The named datasets: their sizes, and where their files are. Nothing here needs torch or numpy."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from gdpnet.errors import DatasetError, nearest


@dataclass(frozen=True)
class Dataset:
    """Size and files of a named dataset."""

    collection: str
    """Its collection in torch_geometric: Planetoid or CitationFull."""
    folder: str
    nodes: int
    links: int
    features: int
    classes: int
    about: str
    fingerprint: str
    """Fingerprint of the graph with its fixed split; records from before they had one are of this content."""
    sha256: dict[str, str] = field(default_factory=dict)
    """Checksum per Planetoid file, checked before the file is unpickled."""

    @property
    def train(self) -> int:
        """Return the number of training nodes: all but 500 for validation and 1,000 for test."""
        return self.nodes - 1500

    @property
    def raw_files(self) -> list[str]:
        """Return the names of its files."""
        return [f"ind.{self.folder.lower()}.{part}" for part in self.sha256] or [f"{self.folder}.npz"]

    def raw_folder(self, data_dir: str | Path | None = None) -> Path:
        """Return the folder that its files belong in."""
        return data_folder(data_dir) / self.collection / self.folder / "raw"


_CORA = {
    "allx": "9419ba2f26f5c35243db64aba110e0f35a04851609e0dc5433450676ca6b8543",
    "ally": "2b998f5cc7fedc86e7f97ca2498f47a1ffc1462c29e2d578b23bf3f62b6e7d71",
    "graph": "58f13302f39dde8852dad6fe6d15b89b077b6d7f837626bce671ef80344b383d",
    "test.index": "297ce89af2b51a6a194181c7dbe1796c6a1cf9cd9349a88383b1b1e227867875",
    "tx": "b9afbaa4a400df991f6f02ef677e1e44da55ffc04801fd02f9e673987829226a",
    "ty": "41f5ac76596a1699cc33f53084a2419e92961c42bb75f36fc38e616d348532ad",
}
_PUBMED = {
    "allx": "508e538e2abdccdd54c4d3e9f49d638b4af7107d85845f66ddea5a5152658b7e",
    "ally": "0c37bbe3b5014ec365e9d393cf4791925e5ed94fb194305d74f064a8d7b50f0e",
    "graph": "5b89f0036ca22909471f1e6558eb42fa06e0c730a577bde5b058b40638f81dc9",
    "test.index": "b101d421688bbaecbd82e8a18f1e282378d6830f3a37666f28ebc47f844341b5",
    "tx": "4eb5f5d0f30f26497eb0ac6ac9719d09c67e284f1ed0385c93f3ef27a671da3d",
    "ty": "ee2e0d4819d9fbcc403689c3bf2e49face401b605932f093bc58ab6461130fdd",
}

DATASETS = {
    "cora": Dataset(
        "Planetoid",
        "Cora",
        2708,
        5278,
        1433,
        7,
        "machine-learning papers, binary words",
        "c177b75b7765725b",
        _CORA,
    ),
    "citeseer": Dataset(
        "CitationFull", "citeseer", 4230, 5337, 602, 6, "computer-science papers, words", "be64089ed8423497"
    ),
    "pubmed": Dataset(
        "Planetoid",
        "PubMed",
        19717,
        44324,
        500,
        3,
        "diabetes papers, tf-idf words",
        "db90a8662eb7b731",
        _PUBMED,
    ),
    "dblp": Dataset(
        "CitationFull", "dblp", 17716, 52867, 1639, 4, "database papers, words", "aca8800f1e45cb4a"
    ),
}


def data_folder(data_dir: str | Path | None = None) -> Path:
    """Return the folder of datasets: ``data_dir`` if given, else ``GDPNET_DATA``, else the user's cache."""
    return Path(data_dir or os.environ.get("GDPNET_DATA") or Path.home() / ".cache" / "gdpnet")


def is_present(name: str, data_dir: str | Path | None = None) -> bool:
    """Return whether all files of a dataset are on this machine."""
    raw = DATASETS[name].raw_folder(data_dir)
    return all((raw / file).is_file() for file in DATASETS[name].raw_files)


def check_name(name: str) -> None:
    """Refuse a graph that is neither a named dataset, ``synthetic`` nor an existing path."""
    path = Path(name)
    if name == "synthetic" or name in DATASETS or path.exists():
        return
    if path.suffix or len(path.parts) > 1:
        raise DatasetError(f"there is no file or folder {name}")
    raise DatasetError(
        f"there is no dataset, file or folder '{name}'{nearest(name, [*DATASETS, 'synthetic'])}"
    )
