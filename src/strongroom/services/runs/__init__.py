"""Runs: working set, ledger, episodes, brief, time travel, artifacts, resume packs."""
