"""The `egodata` command: one module per subcommand, loaded when called."""
