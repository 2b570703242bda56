"""Serve a trained model over HTTP. Needs the packages of ``gdpnet[serve]``, and is imported by nothing else."""
