"""What a client and a server say to each other: MessagePack on the wire, answers in pages, errors by their codes."""
