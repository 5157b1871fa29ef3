"""The house numbers of CONTRIBUTING.md, measured on the source."""

import ast
import re
import statistics
from collections.abc import Iterator
from pathlib import Path

PACKAGES = ("egodata", "pipelines", "egotrain")
MODULE_LINES, TEST_LINES, MEDIAN_LINES, FUNCTION_LINES, PARAMETERS = 500, 600, 150, 60, 7
PUBLIC_POSITIONAL, PRIVATE_POSITIONAL = 2, 4
YAML_FILES, YAML_LINES = 40, 900

# Values that are one thing in several numbers, in an order that everybody knows.
TAKEN_TOGETHER = {
    "egodata/testing/drafts.py:moving_frames": "what a clip is made from",
    "egodata/formats/zarr/attach.py:attach_annotations": "store, episode, what is attached",
    "egodata/formats/zarr/attach.py:attach_calibration": "store, episode, what is attached",
    "egodata/geometry/rotation.py:matrix_from_zyx": "yaw, pitch, roll",
    "egodata/geometry/rotation.py:slerp": "start, end, share",
    "egodata/geometry/camera.py:project": "points, K, distortion",
    "egodata/geometry/camera.py:scale_intrinsics": "K, x, y",
    "egodata/calibration.py:pinhole_matrix": "fx, fy, cx, cy",
    "egodata/cli/console.py:print_table": "title, columns, rows",
    "egodata/progress.py:silent": "a progress callback: label, done, total",
    "egodata/schema/layout.py:quarantine": "the three parts of one path",
}
# Names that a framework calls, with its own arguments.
FRAMEWORK_CALLS = frozenset(
    {"training_step", "validation_step", "predict_step", "forward", "optimizer_step", "transfer_batch_to_device", "on_train_batch_end"}
)
FRAMEWORK_DECORATORS = frozenset(
    {"command", "group", "asset", "multi_asset", "asset_check", "sensor", "schedule", "op", "job", "observable_source_asset"}
)

Function = ast.FunctionDef | ast.AsyncFunctionDef


def _sources(repository: Path) -> list[Path]:
    return sorted(path for package in PACKAGES for path in (repository / package).rglob("*.py"))


def _tests(repository: Path) -> list[Path]:
    return sorted((repository / "tests").rglob("*.py"))


def _lines(path: Path) -> int:
    return len(path.read_text().splitlines())


def _functions(repository: Path) -> Iterator[tuple[str, Function]]:
    for path in _sources(repository):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, Function):
                yield f"{path.relative_to(repository).as_posix()}:{node.name}", node


def _decorators(function: Function) -> set[str]:
    names = (item.func if isinstance(item, ast.Call) else item for item in function.decorator_list)
    return {name.attr if isinstance(name, ast.Attribute) else name.id for name in names if isinstance(name, (ast.Attribute, ast.Name))}


def _parameters(arguments: ast.arguments) -> tuple[list[str], int]:
    positional = [item.arg for item in (*arguments.posonlyargs, *arguments.args) if item.arg not in ("self", "cls")]
    return positional, len(positional) + len(arguments.kwonlyargs)


def test_modules_are_short(repository):
    lengths = {path.relative_to(repository).as_posix(): _lines(path) for path in _sources(repository)}
    assert lengths, "no source found"
    assert {path: lines for path, lines in lengths.items() if lines > MODULE_LINES} == {}
    assert {path.name: _lines(path) for path in _tests(repository) if _lines(path) > TEST_LINES} == {}


def test_the_median_module_is_short(repository, record_property):
    median = statistics.median(lines for path in _sources(repository) if (lines := _lines(path)) > 1)
    record_property("median_module_lines", median)
    print(f"median module: {median} lines")
    assert median <= MEDIAN_LINES


def test_functions_are_short(repository):
    long = {name: lines for name, node in _functions(repository) if (lines := node.end_lineno - node.lineno + 1) > FUNCTION_LINES}
    assert long == {}


def test_functions_take_few_parameters_and_name_them(repository):
    wrong = {}
    for name, node in _functions(repository):
        if node.name in FRAMEWORK_CALLS or _decorators(node) & FRAMEWORK_DECORATORS or name in TAKEN_TOGETHER:
            continue
        positional, count = _parameters(node.args)
        allowed = PRIVATE_POSITIONAL if node.name.startswith("_") else PUBLIC_POSITIONAL
        if count > PARAMETERS or len(positional) > allowed:
            wrong[name] = f"{len(positional)} positional of {count}"
    shown = "".join(f"\n  {name}: {count}" for name, count in sorted(wrong.items()))
    assert wrong == {}, f"at most {PARAMETERS} parameters, keyword-only after the second (private helpers: the fourth):{shown}"


def test_the_exceptions_still_exist(repository):
    assert set(TAKEN_TOGETHER) - {name for name, _ in _functions(repository)} == set()


def test_importing_a_module_does_nothing(repository):
    acting = []
    for path in _sources(repository):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.Expr) and not isinstance(node.value, ast.Constant):
                acting.append(f"{path.relative_to(repository)}:{node.lineno}: {ast.unparse(node)[:80]}")
    assert acting == [], "a call at module level has an effect on import"


def test_a_blind_except_has_a_reason(repository):
    found = []
    for path in _sources(repository):
        lines = path.read_text().splitlines()
        for node in ast.walk(ast.parse("\n".join(lines))):
            blind = isinstance(node, ast.ExceptHandler) and (
                node.type is None or (isinstance(node.type, ast.Name) and node.type.id in ("Exception", "BaseException"))
            )
            if not blind:
                continue
            ends_in_raise = isinstance(node.body[-1], ast.Raise)
            _, _, reason = lines[node.lineno - 1].partition("noqa: BLE001")
            if not ends_in_raise and len(reason.split()) < 3:
                found.append(f"{path.relative_to(repository)}:{node.lineno}")
    assert found == [], "name the exceptions, or write after `# noqa: BLE001` why everything has to be caught"


def test_configs_are_few_and_hold_values_only(repository):
    files = sorted((repository / "configs").rglob("*.y*ml"))
    assert len(files) <= YAML_FILES
    assert sum(_lines(path) for path in files) <= YAML_LINES
    code = [f"{path.relative_to(repository)}" for path in files if "_target_" in path.read_text() or "${" in path.read_text()]
    assert code == [], "configs hold values only: no _target_, no expressions"


COMMAND = re.compile(r"(?<!this )\b(?:egodata|egopipe|egotrain) (?!no )[a-z]+(?=[ `])[^`]*")
"""A command of ours inside a text, up to the end of its quotation; `this egodata reads up to` names none."""


def _unquoted(string: ast.JoinedStr) -> list[str]:
    """Return the expressions that stand inside a command of ours in a text and may bring spaces into it."""
    pieces = [part.value if isinstance(part, ast.Constant) else "\0" for part in string.values]
    values = [ast.unparse(part.value) for part in string.values if not isinstance(part, ast.Constant)]
    text = "".join(pieces)
    ranges = [(text[: found.start()].count("\0"), text[: found.end()].count("\0")) for found in COMMAND.finditer(text)]
    return [value for first, last in ranges for value in values[first:last] if "shell_word" not in value and "shlex.quote" not in value]


def test_commands_in_messages_can_be_copied(repository):
    found = set()
    for path in _sources(repository):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                found |= {f"{path.relative_to(repository).as_posix()}: {value}" for value in _unquoted(node)}
    assert found == set(), "a command in a message names a value that may hold a space: egodata.names.shell_word"
