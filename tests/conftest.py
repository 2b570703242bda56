"""Settings of every test run."""

import torch

# the tensors of tests are small, and two threads on them cost more than they give
torch.set_num_threads(1)
