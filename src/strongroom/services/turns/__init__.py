"""Turns: many operations of services in one commit."""
