"""The fault page names tests that exist, and every finding of ingest and doctor is documented."""

import ast
import re

CODE = re.compile(r"[a-z]+(?:-[a-z]+)+")
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def test_every_fault_names_tests_that_exist(repository):
    text = (repository / "docs/faults.md").read_text()
    named = NAMED.findall(text)
    assert len(named) > 50
    known = {
        path: {node.name for node in ast.walk(ast.parse((repository / path).read_text())) if isinstance(node, ast.FunctionDef)}
        for path in {path for path, _ in named}
    }
    assert [f"{path}::{name}" for path, name in named if name not in known[path]] == []
    rows = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith(("| fault", "|---"))]
    assert [row for row in rows if not NAMED.search(row)] == []


def made_codes(paths):
    """First arguments of `Finding(...)` and of the helpers that make one."""
    found = set()
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
                name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                if name in ("Finding", "finding", "add", "_error") and CODE.fullmatch(str(node.args[0].value)):
                    found.add(node.args[0].value)
    return found


def test_every_finding_of_ingest_and_doctor_is_documented(repository):
    code = repository / "egodata"
    own = made_codes(
        [*(code / "ingest").glob("*.py"), *(code / "doctor").glob("*.py"), code / "reports/quality.py", code / "reports/pictures.py"]
    )
    own -= made_codes([code / "ingest/zarr_v3.py"]) - {"hand-frame-undeclared"}  # those are in docs/vendors/zarr_v3.md
    tables = [line for line in (repository / "docs/ingest.md").read_text().splitlines() if line.startswith("| `")]
    documented = {code for line in tables for code in CODE.findall(line.split("|")[1])}
    assert len(own) > 20 and own - documented == set()
