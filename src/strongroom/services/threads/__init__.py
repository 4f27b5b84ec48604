"""Threads: immutable message buffers, call chains, deliveries."""
