"""`python -m pipelines`: the same as the `egopipe` command, for launchers that know an interpreter and no PATH."""

from pipelines.cli import main

if __name__ == "__main__":
    main()
