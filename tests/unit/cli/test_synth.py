"""`egodata synth` from the command line."""

from egodata.cli.main import cli, run


def synth(*args):
    return run(cli, ["synth", *map(str, args)], program="egodata")


def test_writes_says_so_and_does_nothing_twice(tmp_path, capsys):
    args = (tmp_path / "out", "--operators", 1, "--episodes", 2, "--size", "96x64", "--fps", 10, "--fault", "missing-video:1")
    assert synth(*args) == 0
    said = capsys.readouterr().out
    assert "2 recordings (2 written, 0 there already)" in said
    assert "missing-video" in said
    assert synth(*args) == 0
    assert "(0 written, 2 there already)" in capsys.readouterr().out


def test_wrong_use_is_status_2_with_one_line(tmp_path, capsys):
    assert synth(tmp_path / "out", "--size", "640") == 2
    assert "expected WIDTHxHEIGHT" in capsys.readouterr().err
    assert synth(tmp_path / "out", "--fault", "truncated") == 2
    assert "did you mean truncated-video" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
