"""Who runs the tasks of a pass: this process, or the workers of a Ray cluster."""
