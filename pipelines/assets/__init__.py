"""Assets, one module per group. Bodies resolve the store, call one egodata function and report."""
