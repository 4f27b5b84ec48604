"""SQLite under faults: a disk you control, kill -9 at any moment, power cuts, and what must hold after each."""
