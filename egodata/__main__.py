"""The `egodata` command; `python -m egodata` is the same, for launchers that know an interpreter and no PATH."""

from egodata.cli.entry import start


def main() -> None:
    """Run `egodata` from the command line."""
    start("egodata.cli.main", "egodata")


if __name__ == "__main__":
    main()
