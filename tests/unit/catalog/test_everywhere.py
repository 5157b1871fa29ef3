"""One catalog, one digest: whatever the locale, the hash seed, the order of rows and the Python (CI runs this on each)."""

import os
import subprocess
import sys

PINNED = {
    "shuffle-v1": "2d5df227c78b5f03e9b51c67addb2cfd30818d86bb18f2a32a3a2954ba811a8d",
    "hash-v1": "56715690c829aec769098f3957be74ea034b3604f34ef99d848c9ba2c52abaac",
}
PROGRAM = """
import hashlib, locale, random, sys
from egodata.catalog.freeze import build_manifest
from egodata.catalog.rows import CatalogRow
from egodata.catalog.rules import DatasetRule, HeldOutRule

try:
    locale.setlocale(locale.LC_ALL, "")
except locale.Error:
    pass
rows = []
for i in range(300):
    name, digest = f"{'eE_-zZ'[i % 6]}{i:03d}", hashlib.sha256(str(i).encode()).hexdigest()
    operator = None if i % 50 == 49 else f"mecka/{('ä', 'z', 'Z', 'ß', 'i', 'İ', '名')[i % 7]}"
    session = None if i % 4 == 0 else f"s{i % 30}-{i % 7}"
    rows.append(CatalogRow(name, name, 0, i % 2 == 0, "mecka", "d", "d", operator, session, f"task{i % 3}", "human_bimanual",
                           20 + i, 30, 1, digest, digest[::-1], (), ("front_1",), True))
random.Random(int(sys.argv[1])).shuffle(rows)
for algorithm in ("shuffle-v1", "hash-v1"):
    rule = DatasetRule("set", ("train", "seen", "unseen_operator"), held_out=HeldOutRule(2, 5, "middle"), valid_ratio=0.1, min_frames=30,
                       algorithm=algorithm, group_by="session", allow_null_session=True, allow_null_operator=True, max_per_operator=40)
    print(algorithm, build_manifest(rows, rule, provenance={}).digest)
"""


def locales():
    found = subprocess.run(["locale", "-a"], capture_output=True, text=True, check=False).stdout.split()
    return ["C", "POSIX", *[name for name in ("C.utf8", "en_US.utf8", "de_DE.utf8", "tr_TR.utf8", "ja_JP.utf8") if name in found]]


def test_the_digest_is_pinned(repository, tmp_path):
    program = tmp_path / "digests.py"
    program.write_text(PROGRAM, encoding="utf-8")
    for number, name in enumerate(locales()):
        environment = {
            **os.environ,
            "LC_ALL": name,
            "PYTHONHASHSEED": str(number),
            "PYTHONPATH": str(repository),
            "PYTHONUTF8": "0",
        }
        environment["PYTHONIOENCODING"] = "utf-8"
        done = subprocess.run(
            [sys.executable, str(program), str(number)],
            capture_output=True,
            text=True,
            env=environment,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        assert dict(line.split() for line in done.stdout.splitlines()) == PINNED, name
