"""Real servers for tests, started from wheels: no container, no package manager, nothing outside a temp folder."""
