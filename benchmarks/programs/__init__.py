"""The measured programs: ours, and one module a peer, run by `benchmarks.processes` with an interpreter of its own.

`<peer>.txt` says what is installed in the environment of `<peer>.py`. Each function is a context manager that yields
functions by name.
"""
