"""Long-term memory: propose, review, commit; search."""
