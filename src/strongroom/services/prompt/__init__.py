"""Prompts: everything an agent knows that matters now, in one budget and in the shape a provider takes."""
