"""The conformance tool against our real application: its fixtures, a server that has them, and what is not expected."""
