"""Policies behind one protocol, and what they share."""
