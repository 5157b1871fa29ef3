"""What tests of this project and of others use: drafts, contracts, the synthetic world."""
