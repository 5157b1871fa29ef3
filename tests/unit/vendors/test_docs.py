"""Every finding code that the code can make is documented, and every documented one exists."""

import ast
import re

import pytest

NO_CODES = {"camera-rgb"}  # names in vendors' files that look like codes
CODE = re.compile(r"[a-z]+(?:-[a-z]+)+")


def literals(paths):
    nodes = (node for path in paths for node in ast.walk(ast.parse(path.read_text())))
    return {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str) and CODE.fullmatch(node.value)}


@pytest.mark.parametrize("vendor", ["aria", "egodex", "eva", "lerobot", "mecka", "scale"])
def test_codes_are_documented(repository, vendor):
    own = literals((repository / "egodata/vendors" / vendor).glob("*.py")) - NO_CODES
    common = literals([*(repository / "egodata/ingest").glob("*.py"), *(repository / "egodata/vendors").glob("*.py")])
    table = (repository / f"docs/vendors/{vendor}.md").read_text().partition("## Findings")[2]
    documented = {code for line in table.splitlines() if line.startswith("| `") for code in CODE.findall(line.split("|")[1])}
    assert len(own) > 8
    assert own - documented == set()
    assert documented - own - common == set()
