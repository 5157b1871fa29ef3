from dataclasses import asdict

import pytest
import yaml
from click.testing import CliRunner

from egodata.config import config_root
from egodata.errors import ConfigError
from egotrain.cli import cli
from egotrain.compose import compose_evaluate, compose_fit
from egotrain.conf import plain
from egotrain.runs import flat

NEEDED = ["store=s", "dataset=d@v1", "run=r"]


def shipped(group):
    return sorted(path.stem for path in (config_root() / group).glob("*.yaml"))


@pytest.mark.parametrize("name", shipped("experiment"))
def test_every_experiment_composes(name):
    config = compose_fit([f"experiment={name}", *NEEDED])
    assert config.dataset == "d@v1"
    assert (config_root() / "recipes" / f"{config.recipe}.yaml").is_file()
    text = (config_root() / "experiment" / f"{name}.yaml").read_text()
    composed = flat(plain(asdict(config)))
    wanted = {key: value for key, value in flat(yaml.safe_load(text)).items() if not key.startswith("defaults")}
    assert {key: composed[key] for key in wanted} == wanted, "an experiment wins over train.yaml"
    assert f"experiment={name}" in text, "the command belongs on top"
    assert len(text.splitlines()) <= 40


@pytest.mark.parametrize(("group", "name"), [(g, n) for g in ("policy", "trainer") for n in shipped(g)])
def test_every_choice_composes(group, name):
    assert compose_fit([f"{group}={name}", *NEEDED])


def test_the_default_config_composes():
    assert compose_fit(NEEDED).format == "zarr"
    assert compose_evaluate([]).checkpoint == "last.ckpt"


ODD_TEXTS = ["~/my store", "a=b,c", "it's", "{x}", "[1]", "???", "C:\\data\\", "\\'", "${x}", "null", "123", "true", "ü"]


@pytest.mark.parametrize("value", ODD_TEXTS)
def test_text_is_taken_as_it_is(value):
    config = compose_fit([f"store={value}", "dataset=d@v1", "run=r"])
    assert config.store == value


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["stor=x"], "'stor': not known; did you mean store?"),
        (["max_steps=3"], "'max_steps': not known; did you mean trainer.max_steps?"),
        (["policy.widht=3"], "did you mean policy.width"),
        (["experiment=synthetc"], "experiment 'synthetc': not shipped; did you mean synthetic"),
        (["seed"], "'seed': expected key=value"),
        (["trainer.max_steps=many"], "trainer.max_steps"),
        (["trainer.max_steps=0"], "max_steps"),
        (["policy.heads=5"], "a width of 128 does not divide into 5 heads"),
        (["format=parquet"], "'zarr' or 'lance'"),
        (["+policy.extra=1"], "'+policy.extra': not known"),
    ],
)
def test_a_wrong_word_is_named(words, said):
    with pytest.raises(ConfigError) as caught:
        compose_fit([*NEEDED, *words])
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_values_are_named():
    with pytest.raises(ConfigError, match=r"missing dataset, run. Add dataset=VALUE"):
        compose_fit(["store=s"])


def test_the_command_says_usage_errors_in_one_line_with_status_2(capsys):
    from egodata.cli.main import run

    assert run(cli, ["fit", "stor=x"], program="egotrain") == 2
    assert capsys.readouterr().err == "egotrain: config key 'stor': not known; did you mean store?\n"


def test_help_shows_both_commands():
    result = CliRunner().invoke(cli, ["--help"])
    assert result.exit_code == 0
    assert "fit" in result.output
    assert "eval" in result.output
