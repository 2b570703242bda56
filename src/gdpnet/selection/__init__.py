"""Phase one: select the signal neighbours of each node with a policy trained by PPO."""
