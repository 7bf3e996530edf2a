"""Strategies: ways to a decision, as values."""
