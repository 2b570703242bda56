"""What tests share: small graphs, worlds of episodes, models, and the command line."""
