"""The first moment of every program: Ctrl-C while the rest is still being imported ends as later, in one line and with status 130."""

import sys

INTERRUPTED = "interrupted; what was finished stays, run it again to go on"


def start(module: str, program: str) -> None:
    """Import a command line and run its `main`, which ends the process.

    Nothing but `sys` is imported before, so that an interruption finds the handler here in place from the start.

    Args:
        module: Where the command line is.
        program: What it is called in messages.
    """
    try:
        from importlib import import_module

        import_module(module).main()
    except KeyboardInterrupt:
        sys.stderr.write(f"{program}: {INTERRUPTED}\n")
        sys.exit(130)
