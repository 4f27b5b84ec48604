"""Packs: files that hold parts of a store, read as if an enemy had written them."""
