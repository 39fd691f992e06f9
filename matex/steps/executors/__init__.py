"""Executors of steps, which compute, exchange, update, and recover when a rank dies."""
