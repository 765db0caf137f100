"""containers: where a compile runs. Today one runner: a limited child process."""
