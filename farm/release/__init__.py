"""farm.release: what makes a bundle a release: its version, and the gates that it must pass."""
