"""What all command lines share: how an error ends, and how a table shows what vendors wrote."""

import os
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import pytest

from egodata.cli.console import FiniteRange, PathWord, print_table
from egodata.cli.main import cli, run
from egotrain.cli import cli as train

TALL = """
from egodata.cli.console import echo, print_table
import click
from egodata.cli.main import run
@click.command()
def tall() -> int:
    for _ in range(20):
        print_table("t", ("a",), [(index,) for index in range(2000)])
        echo("x" * 10_000)
    return 0
raise SystemExit(run(tall, [], program="egodata"))
"""


def test_what_the_system_refuses_is_one_line_and_status_2(tmp_path, capsys):
    @click.command()
    def read() -> None:
        (tmp_path / "none").read_bytes()

    assert run(read, [], program="egodata") == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and f"egodata: {tmp_path / 'none'}: No such file or directory. Check the path" in err


@pytest.mark.parametrize(("cell", "shown"), [("[bold]x[/red]", "[bold]x[/red]"), ("\x1b[31mred\x07", r"\x1b[31mred\x07"), (None, "")])
def test_a_cell_is_shown_as_it_is(capsys, cell, shown):
    print_table("Spans", ("text", "n"), [(cell, 1)])
    row = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("│"))
    assert row.split("│")[1].strip() == shown


def test_ids_are_not_broken_over_lines(capsys):
    print_table("Episodes", ("episode", "a", "b"), [("0" * 24, "word " * 30, "word " * 30)])
    assert "0" * 24 in capsys.readouterr().out


def test_a_reader_that_goes_away_does_not_change_the_status():
    for words, stdout in (("| head -1", "t"), (">&-", "")):
        shown = f"set -o pipefail; {sys.executable} -c '{TALL}' {words}"
        done = subprocess.run(["bash", "-c", shown], capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stdout.strip(), done.stderr) == (0, stdout, "")


SLOW_IMPORT = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # as in a terminal, wherever the tests were started
print("importing", flush=True)
signal.pause()
"""


@pytest.mark.parametrize("program", ["egodata", "egopipe", "egotrain"])
@pytest.mark.parametrize("installed", [True, False])
def test_an_interruption_while_a_program_is_being_imported_is_one_line(tmp_path, repository, program, installed):
    (tmp_path / "click.py").write_text(SLOW_IMPORT)  # what every command line imports first
    module, _, name = tomllib.loads((repository / "pyproject.toml").read_text())["project"]["scripts"][program].partition(":")
    script = f"import sys; from {module} import {name}; sys.exit({name}())"  # what pip puts into the installed program
    words = ["-c", script] if installed else ["-m", module.removesuffix(".__main__")]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(repository)])}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([sys.executable, *words], env=env, cwd=tmp_path, text=True, **pipes) as started:
        assert started.stdout.readline() == "importing\n"
        started.send_signal(signal.SIGINT)
        _, err = started.communicate(timeout=60)
    assert (started.returncode, err) == (130, f"{program}: interrupted; what was finished stays, run it again to go on\n")


def test_sigterm_ends_like_an_interruption(capsys):
    @click.command()
    def work() -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    assert run(work, [], program="egodata") == 130
    assert "egodata: interrupted" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGTERM) == before


def test_an_empty_path_is_not_the_current_folder(tmp_path, monkeypatch, capsys):
    @click.command()
    @click.argument("store", type=PathWord(path_type=Path))
    def look(store: Path) -> None:
        click.echo(store)

    assert run(look, [""], program="egodata") == 2
    assert "is a variable not set?" in capsys.readouterr().err
    assert run(look, ["."], program="egodata") == 0
    monkeypatch.chdir(tmp_path)
    for words in (["ingest", ".", "--vendor", "mecka", "--store", ""], ["synth", ""], ["ingest", "", "--vendor", "mecka"]):
        assert run(cli, words, program="egodata") == 2
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("word", ["nan", "inf", "-1"])
def test_a_number_without_bounds_is_refused(word, capsys):
    @click.command()
    @click.option("--seconds", type=FiniteRange(min=0))
    def wait(seconds: float) -> None:
        click.echo(seconds)

    assert run(wait, ["--seconds", word], program="egodata") == 2
    assert run(wait, ["--seconds", "0.5"], program="egodata") == 0


@pytest.mark.parametrize("size", ["0x0", "99999999x64", "64", "-1x64", "axb"])
def test_an_image_size_that_no_policy_takes_is_said(tmp_path, capsys, size):
    assert run(train, ["export", str(tmp_path), str(tmp_path / "out"), "--image-size", size], program="egotrain") == 2
    assert "expected HxW, each 16 to 8192 pixels" in capsys.readouterr().err
