"""Poses, rotations, hand frames and camera projection, vectorised over leading axes."""
