"""The names of three other systems over Holdfast's services: their users change one import line."""
