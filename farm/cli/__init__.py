"""farm.cli: the command line, one file per command.

The module `farm.cli.NAME` holds the click command `NAME` as its attribute `command`. A command raises `FarmError` for
everything that went wrong, prints results with `farm.cli.output`, and returns an exit status or None (done). Heavy
modules are imported inside the command's function, so that `farm --help` stays quick.
"""
