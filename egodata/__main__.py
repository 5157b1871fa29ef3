"""`python -m egodata`: the same as the `egodata` command, for launchers that know an interpreter and no PATH."""

from egodata.cli.main import main

if __name__ == "__main__":
    main()
