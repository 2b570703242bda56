"""Node tables as they come: the kind of each column, and how it becomes features."""
