"""Ways to a decision, and the choice among them."""
