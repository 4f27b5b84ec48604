"""The names of three other systems over Strongroom's services: their users change one import line."""
