"""The runtimes that ours is measured beside, each a server process in an environment of its own."""
