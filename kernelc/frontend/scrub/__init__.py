"""Takes out of a model whatever is not computation: names, notes, paths, people.

`rules` says what is done, `secrets` what may not stay in a name that must be kept, `rewrite` does it, and
`python -I -m kernelc.frontend.scrub` is the child process that does it to a foreign file.
"""
