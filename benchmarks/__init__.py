"""benchmarks: figures that the product stands by, each with its checks. `make bench` and `make bar-X` run them."""
