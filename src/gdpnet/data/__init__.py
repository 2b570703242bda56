"""A graph comes in, checked once."""

from gdpnet.data.features import SparseRows
from gdpnet.data.graph import Graph, Truth

__all__ = ["Graph", "SparseRows", "Truth"]
