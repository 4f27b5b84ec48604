"""Doors for the frameworks that people use: each is an extra, and imports its framework only when it is imported."""
