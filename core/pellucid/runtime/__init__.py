"""Clients, buffers, running."""
