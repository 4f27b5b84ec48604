"""The services: what an agent does, written once in `async def` over the port."""
