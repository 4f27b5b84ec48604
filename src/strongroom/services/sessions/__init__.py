"""Sessions: conversations under a token budget."""
