"""farm: the application. Command line, ledger, scheduler, workers, execution cache, doctor."""
