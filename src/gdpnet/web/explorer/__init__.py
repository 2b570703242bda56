"""The explorer: a page that shows a graph, the decisions on its edges, the reasons for them, and their quality."""
