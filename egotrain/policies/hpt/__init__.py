"""HPT: stems per modality, a shared trunk, an action head (Wang et al. 2024, "Scaling proprioceptive-visual learning with HPT")."""
