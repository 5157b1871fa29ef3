"""What all command lines share: how an error ends, and how a table shows what vendors wrote."""

import click
import pytest

from egodata.cli.console import print_table
from egodata.cli.main import run


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
