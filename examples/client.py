"""Ask a server about a stored node, and about a new node that is attached to it.

Start the server first: ``gdpnet serve runs/mine --graph mystore``. Only the standard library is used.
"""

from __future__ import annotations

import argparse
import json
import os
import urllib.error
import urllib.request
from typing import Any


class Client:
    """Sends questions to a server."""

    def __init__(self, url: str, token: str | None = None) -> None:
        self.url, self.token = url.rstrip("/"), token

    def get(self, path: str) -> Any:
        """Return what the server tells at a path."""
        return self._send(urllib.request.Request(self.url + path))

    def ask(self, question: str, targets: list[str], **body: Any) -> list[dict[str, Any]]:
        """Ask to predict, embed, denoise or explain some targets; return one answer per target."""
        data = json.dumps({"targets": targets, **body}).encode()
        request = urllib.request.Request(
            f"{self.url}/v1/{question}", data, {"Content-Type": "application/json"}
        )
        answers: list[dict[str, Any]] = self._send(request)["results"]
        return answers

    def _send(self, request: urllib.request.Request) -> Any:
        if self.token:
            request.add_header("Authorization", f"Bearer {self.token}")
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            problem = json.load(error)
            raise SystemExit(f"{problem['status']} {problem['title']}: {problem['detail']}") from error


def said_of(answer: dict[str, Any]) -> Any:
    """Return the predicted class or labels, or the predicted number."""
    return answer["predicted"] if "predicted" in answer else answer["prediction"]


def attached_to(node: str, model: dict[str, Any]) -> dict[str, Any]:
    """Return a new node with made-up features, if nodes have any, and its edge to a stored node."""
    new: dict[str, Any] = {"node_id": "a new node"}
    width = model["features"]["width"]
    if width:
        new["features"] = [1.0 / width] * width
    edge: dict[str, Any] = {"src_node_id": "a new node", "dest_node_id": node}
    if model["graph"]["weighted"]:
        edge["weight"] = 1.0
    if model["edge_features"]:
        edge["features"] = [0.0] * model["edge_features"]["width"]
    return {"nodes": [new], "edges": [edge]}


def main() -> None:
    """Ask two questions and print the answers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", default="http://127.0.0.1:8765", help="address of the server")
    parser.add_argument("--node", required=True, help="id of a stored node")
    options = parser.parse_args()
    client = Client(options.url, os.environ.get("GDPNET_TOKEN"))

    model = client.get("/v1/model")
    print(
        f"model {model['model']} on {model['graph']['nodes']:,} nodes and {model['graph']['edges']:,} edges"
    )
    (stored,) = client.ask("predict", [options.node])
    print(f"{options.node}: {said_of(stored)}")

    new = attached_to(options.node, model)
    (predicted,) = client.ask("predict", ["a new node"], **new)
    (cleaned,) = client.ask("denoise", ["a new node"], **new)
    print(f"a new node: {said_of(predicted)}")
    for edge in cleaned["edges"]:
        said = "kept" if edge["kept"] else "dropped"
        print(f"  its edge to {edge['src_node_id']}: {said}, keep probability {edge['keep_probability']:.2f}")


if __name__ == "__main__":
    main()
