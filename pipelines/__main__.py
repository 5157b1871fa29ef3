"""The `egopipe` command; `python -m pipelines` is the same, for launchers that know an interpreter and no PATH."""

from egodata.cli.entry import start


def main() -> None:
    """Run `egopipe` from the command line."""
    start("pipelines.cli", "egopipe")


if __name__ == "__main__":
    main()
