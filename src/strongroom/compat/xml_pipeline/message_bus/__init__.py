"""Call chains (`thread_registry`), and what handlers are told and answer (`message_state`)."""
