"""Documentation, and the script that makes parts of it."""
