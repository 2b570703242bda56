"""What a browser shows: the explorer of a run, and the libraries that its page uses."""
