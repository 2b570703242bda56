"""The named datasets: their sizes, and where their files are. Nothing here needs torch or numpy."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from gdpnet._core.files.objects import is_address
from gdpnet.errors import DatasetError, nearest

SOURCES = {
    "Planetoid": "https://github.com/kimiyoung/planetoid/raw/master/data",
    "CitationFull": "https://github.com/abojchevski/graph2gauss/raw/master/data",
}
"""Where the authors publish the files of each collection."""


@dataclass(frozen=True)
class Dataset:
    """Size and files of a named dataset."""

    collection: str
    """Its collection, as torch_geometric calls it: Planetoid or CitationFull."""
    folder: str
    nodes: int
    links: int
    features: int
    classes: int
    about: str
    fingerprint: str
    """Fingerprint of the graph with its fixed split; records from before they had one are of this content."""
    sha256: dict[str, str]
    """Checksum per file, by the end of its name, checked before the file is opened."""
    content: str = ""
    """Checksum of the edges, features and labels in an npz file, which others have saved again in other bytes."""

    @property
    def train(self) -> int:
        """Return the number of training nodes: all but 500 for validation and 1,000 for test."""
        return self.nodes - 1500

    @property
    def raw_files(self) -> list[str]:
        """Return the names of its files."""
        start = f"ind.{self.folder.lower()}" if self.collection == "Planetoid" else self.folder
        return [f"{start}.{part}" for part in self.sha256]

    @property
    def url(self) -> str:
        """Return the address of the folder that its files are published in."""
        return SOURCES[self.collection]

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
        "CitationFull",
        "citeseer",
        4230,
        5337,
        602,
        6,
        "computer-science papers, words",
        "be64089ed8423497",
        {"npz": "9a0cb5dd691753cb7ef849adfc7bfd3bb9b8a15261a68aa21e50f780131085ce"},
        "ef9739a9d5457aef3b3995c4f82164f51636f13d12706fd590ca165e40bee6c0",
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
        "CitationFull",
        "dblp",
        17716,
        52867,
        1639,
        4,
        "database papers, words",
        "aca8800f1e45cb4a",
        {"npz": "1caf28e98ebd2c6ba3dbbaf2ca1896a576b631ebb6eb537605fc368770cd27c6"},
        "dcabe43d2c4469fdd435fce5a9a759b849265b969068cc079b74ac952b930527",
    ),
}


@dataclass(frozen=True)
class Attacked:
    """An attacked graph that others published, with one fixed split; transductive, and never downloaded."""

    file: str
    """Its file under the folder of datasets."""
    rate: str
    links: int
    sha256: str
    nodes: int = 2485
    features: int = 1433
    classes: int = 7
    train: int = 247
    collection: str = "Attacked"

    @property
    def about(self) -> str:
        """Return one line on the graph."""
        return f"Cora, attacked by Metattack at rate {self.rate}"

    @property
    def raw_files(self) -> list[str]:
        """Return the name of its file."""
        return [self.file]

    def raw_folder(self, data_dir: str | Path | None = None) -> Path:
        """Return the folder that its file belongs in."""
        return data_folder(data_dir) / self.collection / "cora"


_METATTACK = {
    "0.05": (5322, "8fe0cfdf4f93eb7a91cf69face37632057b2c89760b1021a2c7b92cfd6281210"),
    "0.1": (5567, "43bbf798091f4e1c8d0569b251cfbdc9ad74e977292cc6c473e9b8f77562753b"),
    "0.15": (5809, "bdaca7cc11916c07fb122ed43d3d50032f4aef3566f6e0c251bfe1994d23841c"),
    "0.2": (6040, "5b011cdb7b691eea08ffb15bf0be57a0b2faa1d18ffd5f739c016006addf9747"),
    "0.25": (6246, "b88156aff42d11c6feb9e9e85c7be5ba7510c6ff111621f7cc1d97134903403d"),
}

ATTACKED = {
    f"cora-metattack-{rate}": Attacked(f"metattack_{rate}.npz", rate, links, sha256)
    for rate, (links, sha256) in _METATTACK.items()
}
"""The attacked graphs of Pro-GNN's authors by name: the largest component of Cora with links added and removed."""

NAMED: dict[str, Dataset | Attacked] = DATASETS | ATTACKED
"""Every dataset by name."""


def data_folder(data_dir: str | Path | None = None) -> Path:
    """Return the folder of datasets: ``data_dir`` if given, else ``GDPNET_DATA``, else the user's cache."""
    if not isinstance(data_dir, str | os.PathLike | None):
        raise DatasetError(f"the folder of datasets must be a path, found {type(data_dir).__name__}")
    return Path(data_dir or os.environ.get("GDPNET_DATA") or Path.home() / ".cache" / "gdpnet")


def is_present(name: str, data_dir: str | Path | None = None) -> bool:
    """Return whether all files of a dataset are on this machine."""
    raw = NAMED[name].raw_folder(data_dir)
    return all((raw / file).is_file() for file in NAMED[name].raw_files)


def check_name(name: str) -> None:
    """Refuse a graph that is neither a named dataset, ``synthetic`` nor an existing path."""
    path = Path(name)
    if name == "synthetic" or name in NAMED or is_address(name) or path.exists():
        return
    if len(path.parts) > 1 or (path.suffix and not name.startswith("cora-metattack")):
        raise DatasetError(f"there is no file or folder {name}")
    raise DatasetError(f"there is no dataset, file or folder '{name}'{nearest(name, [*NAMED, 'synthetic'])}")
