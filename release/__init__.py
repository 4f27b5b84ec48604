"""`make release`: build what is published, and try it as a stranger would."""
