"""farm.registry: releases in an OCI registry: pushed by digest, logged, tagged once, verified by whoever fetches."""
