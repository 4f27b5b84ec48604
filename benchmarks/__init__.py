"""Benchmarks: one file a question, answered by ratios against a peer or a limit measured in the same run."""
