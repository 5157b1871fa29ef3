"""Training of policies on frozen datasets: the same answer on either storage format."""
