"""Entry point of `egodata`: finds subcommands lazily and turns errors into one line and an exit status.

Exit status: 0 clean, 1 findings or a failed verdict, 2 usage or input, 3 internal, 130 interrupted.
"""

import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from types import FrameType

import click

from egodata import __version__
from egodata.cli.entry import INTERRUPTED
from egodata.errors import EgodataError, GateError
from egodata.names import nearest

COMMANDS = {
    "synth": "egodata.cli.synth:synth",
    "ingest": "egodata.cli.ingest:ingest",
    "doctor": "egodata.cli.doctor:doctor",
    "waive": "egodata.cli.waive:waive",
    "verify": "egodata.cli.verify:verify",
    "gc": "egodata.cli.gc:gc",
    "migrate": "egodata.cli.migrate:migrate",
    "attach": "egodata.cli.attach:attach",
    "validate": "egodata.cli.validate:validate",
    "inspect": "egodata.cli.inspect:inspect",
    "preview": "egodata.cli.preview:preview",
    "export": "egodata.cli.export:export",
    "lance": "egodata.cli.lance:lance",
    "parity": "egodata.cli.parity:parity",
    "catalog": "egodata.cli.catalog:catalog",
    "forget": "egodata.cli.forget:forget",
    "dataset": "egodata.cli.dataset:dataset",
    "stats": "egodata.cli.stats:stats",
    "bench": "egodata.cli.bench:bench",
}


class LazyGroup(click.Group):
    """A group whose subcommands are imported when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the help page."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one subcommand; an unknown name lists the nearest."""
        if cmd_name not in COMMANDS:
            raise click.UsageError(f"no command {cmd_name!r}: {nearest(cmd_name, COMMANDS)}")
        module, _, name = COMMANDS[cmd_name].partition(":")
        command = getattr(import_module(module), name)
        if not isinstance(command, click.Command):
            raise TypeError(f"{COMMANDS[cmd_name]} is not a command")
        return command


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="egodata")
@click.option("--traceback", "show_traceback", is_flag=True, help="Show where an error came from.")
@click.pass_context
def cli(ctx: click.Context, show_traceback: bool) -> None:
    """Raw egocentric deliveries in, train-ready episodes out."""
    ctx.obj = {"traceback": show_traceback}


def run(command: click.Command, args: Sequence[str] | None = None, *, program: str) -> int:
    """Run a command line and return its exit status; errors are one line on stderr."""
    words = list(sys.argv[1:] if args is None else args)
    show = "--traceback" in words
    with _sigterm_interrupts():
        return _run(command, words, program=program, show=show)


@contextmanager
def _sigterm_interrupts() -> Iterator[None]:
    """Treat SIGTERM as Ctrl-C: what is under way is cleaned up, and the status is 130. Processes forked meanwhile just end."""
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield
        return
    here = os.getpid()

    def interrupt(number: int, frame: FrameType | None) -> None:
        if os.getpid() != here:
            os._exit(128 + number)
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _run(command: click.Command, words: list[str], *, program: str, show: bool) -> int:
    try:
        result = command.main(args=words, prog_name=program, standalone_mode=False)
        return result if isinstance(result, int) else 0
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo(f"{program}: {INTERRUPTED}", err=True)
        return 130
    except click.ClickException as error:
        error.show()
        return 2
    except EgodataError as error:
        if show:
            traceback.print_exc()
        click.echo(f"{program}: {error}", err=True)
        return 1 if isinstance(error, GateError) else 2  # a failed gate is a verdict on data, not wrong usage
    except OSError as error:
        if show:
            traceback.print_exc()
        click.echo(
            f"{program}: {error.filename or 'a file'}: {error.strerror or error}. Check the path, its permissions, the disk.", err=True
        )
        return 2
    except Exception as error:  # noqa: BLE001  the outermost frame: nothing may end in a bare traceback
        if show:
            traceback.print_exc()
        click.echo(f"{program}: internal error: {type(error).__name__}: {error}. Run with --traceback and report it.", err=True)
        return 3


def main() -> None:
    """Run `egodata` from the command line."""
    sys.exit(run(cli, program="egodata"))
