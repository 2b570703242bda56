"""A graph comes in, checked once."""

from gdpnet.graph.graph import Graph, Truth
from gdpnet.graph.features import SparseRows

__all__ = ["Graph", "SparseRows", "Truth"]
