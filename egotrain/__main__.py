"""The `egotrain` command; `python -m egotrain` is the same, for launchers that know an interpreter and no PATH."""

from egodata.cli.entry import start


def main() -> None:
    """Run `egotrain` from the command line."""
    start("egotrain.cli", "egotrain")


if __name__ == "__main__":
    main()
