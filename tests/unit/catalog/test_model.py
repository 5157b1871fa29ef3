"""A catalog that episodes are added to, removed from and delivered to again, against a model in memory of what datasets must hold."""

import random
import sys
from dataclasses import replace
from fractions import Fraction
from hashlib import sha256

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from egodata.catalog import build_manifest, freeze, load_dataset
from egodata.catalog.rules import DatasetRule, checked_rule
from egodata.errors import GateError
from egodata.schema.layout import open_root

NAMES = tuple(f"ep{i:02d}" for i in range(24))
STEP = st.tuples(st.sampled_from(("add", "remove", "redeliver")), st.sampled_from(NAMES), st.integers(0, 3))
RULE = checked_rule(
    DatasetRule(name="set", heads=("train", "seen", "unseen_operator"), held_out_operators=("mecka/x",), valid_ratio=0.3, seed=7)
)


def expected_heads(model, algorithm):
    """The split written out once more, from the definition."""
    held = sorted(name for name, (operator, _) in model.items() if operator == "mecka/x")
    rest = sorted(set(model) - set(held))
    if algorithm == "hash-v1":
        seen = [n for n in rest if Fraction(int.from_bytes(sha256(f"7:{n}".encode()).digest()[:8], "big"), 2**64) < Fraction(3, 10)]
    else:
        shuffled = list(rest)
        random.Random(7).shuffle(shuffled)
        seen = sorted(shuffled[: max(1, int(len(rest) * 0.3))])
    return {"train": [name for name in rest if name not in seen], "seen": seen, "unseen_operator": held}


def operator_of(name):
    return "mecka/x" if name.endswith(("3", "7")) else "mecka/a"


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(steps=st.lists(STEP, min_size=1, max_size=40), algorithm=st.sampled_from(("shuffle-v1", "hash-v1")), shuffle=st.integers(0, 2**32))
def test_datasets_follow_the_model_and_old_ones_never_change(tmp_path_factory, row, monkeypatch, steps, algorithm, shuffle):
    paths = open_root(tmp_path_factory.mktemp("s") / "store", create=True)
    model = {name: (operator_of(name), 0) for name in NAMES[:16]}
    held = []
    monkeypatch.setattr(sys.modules["egodata.catalog.freeze"], "_catalog", lambda paths, format: (held, None))
    rule = replace(RULE, algorithm=algorithm)
    frozen, heads_before = {}, {}
    for turn, (action, name, content) in enumerate([("add", NAMES[0], 0), *steps]):
        if action == "remove":
            model.pop(name, None)
        elif action == "add" or name in model:
            model[name] = (operator_of(name), content)
        rows = [
            row(episode, operator=operator, content=sha256(f"{episode} {build}".encode()).hexdigest())
            for episode, (operator, build) in model.items()
        ]
        random.Random(shuffle + turn).shuffle(rows)
        held[:] = rows
        wanted = expected_heads(model, algorithm)
        if not all(wanted.values()):
            with pytest.raises(GateError):
                freeze(paths, rule, version=f"v{turn}", format="zarr")
            continue
        made = freeze(paths, rule, version=f"v{turn}", format="zarr").manifest
        assert {head: [episode.episode_id for episode in members] for head, members in made.heads.items()} == wanted
        assert build_manifest(sorted(rows, key=lambda r: r.content), rule, provenance={}).digest == made.digest
        for head, members in made.heads.items():
            for episode in members:
                if algorithm == "hash-v1":
                    assert heads_before.setdefault(episode.episode_id, head) == head
        frozen[f"v{turn}"] = made
    for version, made in list(frozen.items())[:: max(1, len(frozen) // 5)]:
        again = load_dataset(paths, f"set@{version}")
        assert again.digest == made.digest and again.heads == made.heads
