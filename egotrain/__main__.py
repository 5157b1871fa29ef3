"""`python -m egotrain`: the same as the `egotrain` command, for launchers that know an interpreter and no PATH."""

from egotrain.cli import main

if __name__ == "__main__":
    main()
