"""Ways to damage a delivery by chance: truncations, bit flips, row drops, column swaps, type changes, lost and doubled files."""

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

CELLS = ("", "x", "nan", "inf", "-1", "1e400", "0", "999999999999999999999", "1,5", "\u202e\U0001f9e4", "null", "0x1F", "1e9", "-1e9", '"')
VALUES: tuple[Any, ...] = (None, True, -1, 0, 10**30, 1.5, "", "x", "../../etc/passwd", [], {}, [[]], "\udcff", float("nan"), "a" * 5000)


def damage(folder: Path, rng: random.Random) -> str:
    """Damage one file of a delivery, seldom two, and say how."""
    told = []
    for _ in range(1 if rng.random() < 0.8 else 2):
        files = sorted(path for path in folder.rglob("*") if path.is_file() and "ground_truth" not in path.parts)
        if not files:
            break  # the first damage took the only one
        path = rng.choice(files)
        kinds = [*ANY, *BY_SUFFIX.get(path.suffix, ())]
        kind = rng.choice(kinds)
        try:
            detail = kind(path, rng)
        except (ValueError, TypeError, KeyError, IndexError, pa.ArrowException, OSError, RuntimeError) as error:
            detail = f"could not ({type(error).__name__}); bits instead: {_flip_bits(path, rng)}"  # damaged before, by the first of two
        told.append(f"{kind.__name__.strip('_')} {path.relative_to(folder)} {detail}")
    return "; ".join(told)


def _truncate(path: Path, rng: random.Random) -> str:
    data = path.read_bytes()
    kept = rng.choice((0, 1, rng.randrange(len(data) + 1), int(0.9 * len(data)), max(0, len(data) - 1)))
    path.write_bytes(data[:kept])
    return f"to {kept} of {len(data)}"


def _flip_bits(path: Path, rng: random.Random) -> str:
    data = bytearray(path.read_bytes())
    places = [rng.randrange(len(data)) for _ in range(rng.choice((1, 1, 3, 20)))] if data else []
    for place in places:
        data[place] ^= 1 << rng.randrange(8)
    path.write_bytes(data)
    return f"at {places[:4]}"


def _overwrite(path: Path, rng: random.Random) -> str:
    data = bytearray(path.read_bytes())
    start = rng.randrange(len(data) + 1)
    length = rng.choice((4, 16, 200))
    data[start : start + length] = rng.choice((bytes(length), b"\xff" * length, rng.randbytes(length)))
    path.write_bytes(data)
    return f"{length} bytes at {start}"


def _insert(path: Path, rng: random.Random) -> str:
    data = path.read_bytes()
    start = rng.randrange(len(data) + 1)
    path.write_bytes(data[:start] + rng.randbytes(rng.choice((1, 7, 64))) + data[start:])
    return f"at {start}"


def _delete(path: Path, rng: random.Random) -> str:
    path.unlink()
    return "deleted"


def _exchange(path: Path, rng: random.Random) -> str:
    """Put another file of the delivery in its place."""
    others = [other for other in sorted(path.parents[1].rglob("*")) if other.is_file() and other != path]
    if not others:
        return _truncate(path, rng)
    other = rng.choice(others)
    shutil.copyfile(other, path)
    return f"replaced by {other.name}"


def _lines(path: Path) -> list[str]:
    return path.read_bytes().decode("utf-8", "surrogateescape").splitlines(keepends=True)


def _save(path: Path, lines: list[str]) -> None:
    path.write_bytes("".join(lines).encode("utf-8", "surrogateescape"))


def _drop_rows(path: Path, rng: random.Random) -> str:
    lines = _lines(path)
    gone = sorted(rng.sample(range(len(lines)), min(len(lines), rng.choice((1, 1, 2, 30)))))
    _save(path, [line for number, line in enumerate(lines) if number not in gone])
    return f"{gone[:4]} of {len(lines)}"


def _repeat_rows(path: Path, rng: random.Random) -> str:
    lines = _lines(path)
    row = rng.randrange(len(lines))
    _save(path, [*lines[:row], *lines[row:], *lines[row : row + rng.choice((1, 40))]])
    return f"from {row}"


def _shuffle_rows(path: Path, rng: random.Random) -> str:
    lines = _lines(path)
    head, rest = (lines[:1], lines[1:]) if rng.random() < 0.7 else ([], lines)
    rng.shuffle(rest)
    _save(path, head + rest)
    return "all"


def _separator(text: str) -> str:
    return "," if "," in text else " "


def _swap_columns(path: Path, rng: random.Random) -> str:
    """Swap two columns in all rows, with the header or against it."""
    lines = _lines(path)
    separator, first = _separator(lines[0]), rng.choice((0, 1))
    rows = [line.rstrip("\r\n").split(separator) for line in lines]
    one, other = rng.sample(range(len(rows[0])), 2)
    for row in rows[first:]:
        row[one], row[other] = row[other], row[one]
    _save(path, [separator.join(row) + "\n" for row in rows])
    return f"{one} and {other} from row {first}"


def _change_cells(path: Path, rng: random.Random) -> str:
    lines = _lines(path)
    separator, column, cell = _separator(lines[0]), rng.randrange(len(lines[0].split(_separator(lines[0])))), rng.choice(CELLS)
    chosen = range(len(lines)) if rng.random() < 0.3 else rng.sample(range(len(lines)), min(3, len(lines)))
    for number in chosen:
        row = lines[number].rstrip("\r\n").split(separator)
        row[min(column, len(row) - 1)] = cell
        lines[number] = separator.join(row) + "\n"
    _save(path, lines)
    return f"column {column} to {cell!r} in {len(chosen)} rows"


def _change_json(path: Path, rng: random.Random) -> str:
    """Give one value of a JSON file another type, or remove it; of a file of lines, of one line."""
    text = path.read_text("utf-8")
    lines = [text] if path.suffix == ".json" else text.splitlines()
    at = rng.randrange(len(lines))
    value = json.loads(lines[at])
    place, parent = _somewhere(value, rng)
    if rng.random() < 0.3:
        del parent[place]
        what = "removed"
    else:
        parent[place] = rng.choice(VALUES)
        what = f"to {str(parent[place])[:20]!r}"
    lines[at] = json.dumps(value)
    path.write_text("\n".join(lines))
    return f"{place} {what}"


def _somewhere(value: Any, rng: random.Random) -> tuple[Any, Any]:
    places: list[tuple[Any, Any]] = []

    def walk(parent: Any) -> None:
        for key in parent if isinstance(parent, dict) else range(len(parent)):
            places.append((key, parent))
            if isinstance(parent[key], (dict, list)):
                walk(parent[key])

    walk(value)
    return rng.choice(places)


def _drop_parquet_rows(path: Path, rng: random.Random) -> str:
    table = pq.read_table(path)
    kept = sorted(rng.sample(range(table.num_rows), rng.choice((0, 1, table.num_rows - 1, table.num_rows // 2))))
    pq.write_table(table.take(kept), path)
    return f"{len(kept)} of {table.num_rows} kept"


def _swap_parquet_columns(path: Path, rng: random.Random) -> str:
    table = pq.read_table(path)
    one, other = rng.sample(table.column_names, 2)
    names = {one: other, other: one}
    pq.write_table(table.rename_columns([names.get(name, name) for name in table.column_names]), path)
    return f"{one} and {other}"


def _change_parquet_column(path: Path, rng: random.Random) -> str:
    table = pq.read_table(path)
    name, rows = rng.choice(table.column_names), table.num_rows
    made: dict[str, list[Any]] = {
        "text": ["x"] * rows,
        "nulls": [None] * rows,
        "ragged": [[1.0] * (row % 3) for row in range(rows)],
        "nan": [float("nan")] * rows,
        "huge": [2**62] * rows,
        "nested": [[[1.0]]] * rows,
        "bytes": [b"\xff"] * rows,
    }
    kind = rng.choice([*made, "gone"])
    at = table.column_names.index(name)
    pq.write_table(table.drop_columns([name]) if kind == "gone" else table.set_column(at, name, pa.array(made[kind])), path)
    return f"{name} to {kind}"


def _change_hdf5(path: Path, rng: random.Random) -> str:
    """Cut, retype, remove or exchange one data set; a text, which an earlier damage made, is removed."""
    import h5py

    with h5py.File(path, "r+") as file:
        names: list[str] = []
        file.visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
        name, kind = rng.choice(sorted(names)), rng.choice(("cut", "text", "gone", "nan", "flat", "other"))
        values = file[name][()]
        del file[name]
        if not hasattr(values, "dtype"):  # the damage before made it a text
            return f"{name} gone"
        if kind == "cut":
            file[name] = values[: len(values) // 2] if values.ndim else values
        elif kind == "text":
            file[name] = "x"
        elif kind == "nan":
            file[name] = values * float("nan") if values.dtype.kind == "f" else values[..., None]
        elif kind == "flat":
            file[name] = values.reshape(-1)
        elif kind == "other":
            file[name] = file[rng.choice([other for other in sorted(names) if other != name])][()]
    return f"{name} {kind}"


Kind = Callable[[Path, random.Random], str]
ANY: tuple[Kind, ...] = (_truncate, _flip_bits, _overwrite, _insert, _delete, _exchange)
TABLE: tuple[Kind, ...] = (
    _drop_rows,
    _repeat_rows,
    _shuffle_rows,
    _swap_columns,
    _swap_columns,
    _change_cells,
    _change_cells,
    _change_cells,
)
JSON: tuple[Kind, ...] = (_change_json,) * 8
BY_SUFFIX: dict[str, tuple[Kind, ...]] = {
    ".csv": TABLE,
    ".txt": TABLE,
    ".json": JSON,
    ".jsonl": (*JSON, _drop_rows, _repeat_rows),
    ".parquet": (*(_drop_parquet_rows, _swap_parquet_columns, _change_parquet_column) * 3,),
    ".hdf5": (_change_hdf5,) * 8,
    ".h5": (_change_hdf5,) * 8,
}
