"""A graph comes in, checked once."""

from gdpnet.graph.features import SparseRows
from gdpnet.graph.graph import Graph, Truth

__all__ = ["Graph", "SparseRows", "Truth"]
