"""RDT: a diffusion transformer over actions (Liu et al. 2024, "RDT-1B: a diffusion foundation model for bimanual manipulation")."""
