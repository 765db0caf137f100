"""tests.support: what tests, demo and benchmarks share. Pinned models, small graphs, perturbed surroundings."""
