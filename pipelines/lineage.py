"""`egopipe lineage`: what a checkpoint was made from, and what an episode was used for. Reads the store; needs no Dagster."""

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from egodata.catalog import Manifest, list_datasets
from egodata.catalog.lineage import origins, uses
from egodata.catalog.manifest import manifest_from_bytes
from egodata.cli.console import echo, print_table
from egodata.errors import InputError, NotFoundError
from egodata.formats import open_store
from egodata.names import nearest
from egodata.parity import read_rows
from egodata.schema.layout import StorePaths, open_root
from pipelines.checkpoints import CarriedDataset, read_checkpoint, run_folder_of

SHOWN = 20


def lineage(checkpoint: Path | None, *, episode: str | None, store: Path | None, as_json: bool) -> int:
    """Print one of the two ways of lineage.

    Raises:
        InputError: Neither or both of checkpoint and episode.
        NotFoundError: No such run, dataset or episode.
    """
    if (checkpoint is None) == (episode is None):
        raise InputError("lineage: give either a CHECKPOINT (or run folder) or --episode ID")
    if checkpoint is not None:
        paths = open_root(store) if store else _store_of(checkpoint)
        found = of_checkpoint(paths, checkpoint)
    else:
        paths = open_root(store or Path("store"))
        found = of_episode(paths, episode or "")
    if as_json:
        echo(json.dumps(found, sort_keys=True, ensure_ascii=False))
    elif checkpoint is not None:
        _print_checkpoint(found)
    else:
        _print_episode(found)
    return int(bool(found.get("problems")))


def _store_of(path: Path) -> StorePaths:
    for folder in path.absolute().parents:
        if (folder / "store.json").is_file():
            return open_root(folder)
    return open_root(Path("store"))


def of_checkpoint(paths: StorePaths, path: Path) -> dict[str, Any]:
    """Return everything that a checkpoint was made from, as plain values; `problems` names what does not fit or is gone.

    Args:
        paths: The store.
        path: A checkpoint, or a run folder, whose newest checkpoint is meant.

    Raises:
        NotFoundError: No checkpoint, or no dataset of one of its digests in the store.
    """
    carried = read_checkpoint(path)
    run = run_folder_of(path)
    beside = _beside(run)
    made = [_made_from(paths, one) for one in carried.datasets]
    noted = [found.get("digest") for found in (beside["dataset"], *beside["dataset"].get("co_train", ()))]
    problems = [problem for one in made for problem in one.pop("problems")]
    problems += [
        f"run {run}: its dataset.json says digest {str(there)[:16]}, the checkpoint {one.digest[:16]}"
        for there, one in zip(noted, carried.datasets, strict=False)
        if there not in (None, one.digest)
    ]
    episodes = [episode for one in made for episode in one.pop("episodes")]
    return {
        "checkpoint": str(path),
        "step": carried.step,
        "run": carried.config.get("run"),
        "seed": carried.config.get("seed"),
        "format": carried.config.get("format"),
        "config": carried.config,
        "environment": beside["environment"],
        "git": beside["environment"].get("git"),
        "dagster": beside["dagster"],
        **made[0],
        "co_train": made[1:],
        "episodes": episodes,
        "problems": problems,
    }


def _made_from(paths: StorePaths, one: CarriedDataset) -> dict[str, Any]:
    """Return what is known of one dataset of a checkpoint, its episodes and what is gone of them."""
    manifest = _dataset_of(paths, one.digest, one.ref)
    found, gone = origins(paths, manifest)
    heads = {head: len(members) for head, members in manifest.heads.items()}
    about = {"ref": manifest.ref, "digest": manifest.digest, "provenance": jsonable_provenance(manifest), "heads": heads}
    return {
        "dataset": about,
        "recipe": one.recipe,
        "stats_key": one.stats_key,
        "parity": parity_of(paths, manifest),
        "episodes": [{**origin.to_json(), "dataset": manifest.ref} for origin in found],
        "problems": [f"episode {episode_id}: no format holds the recorded content any more" for episode_id in gone],
    }


def jsonable_provenance(manifest: Manifest) -> dict[str, Any]:
    """Return the provenance of a manifest without its longest part, the difference from its parent line by line."""
    kept = dict(manifest.provenance)
    if "parent" in kept:
        kept["parent"] = {name: kept["parent"][name] for name in ("version", "digest") if name in kept["parent"]}
    return kept


def _beside(run: Path | None) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for name in ("dataset", "environment", "dagster"):
        path = run / f"{name}.json" if run else None
        try:
            found[name] = dict(json.loads(path.read_text())) if path and path.is_file() else {}
        except ValueError:
            found[name] = {}
    return found


def _dataset_of(paths: StorePaths, digest: str, ref: str) -> Manifest:
    """Find a dataset by its digest, which is its name for ever; name and version are only where one looks first."""
    known = {found: f"{name}@{version}" for name, version, found in list_datasets(paths)}
    if digest not in known:
        named = nearest(ref, known.values())
        raise NotFoundError(f"dataset {ref} with digest {digest[:16]}: not in store {paths.root}; {named}. Name another with --store.")
    name, version = known[digest].split("@", 1)
    return manifest_from_bytes(paths.manifest(name, version).read_bytes(), where=f"dataset {known[digest]}")


def parity_of(paths: StorePaths, manifest: Manifest) -> dict[str, Any]:
    """Return the newest loader verdict per recipe, and how many members passed their newest content check."""
    loader: dict[str, Any] = {}
    content: dict[tuple[str, str], bool] = {}
    for row in read_rows(paths):
        if row["level"] == "loader" and row["dataset_digest"] == manifest.digest and not row["episode_id"]:
            loader[row["recipe"]] = {"passed": bool(row["passed"]), "created": row["created"]}
        elif row["level"] == "content" and row["episode_id"]:
            content[row["episode_id"], row["content"]] = bool(row["passed"])
    members = [(episode.episode_id, episode.content) for head in manifest.heads.values() for episode in head]
    verdicts = Counter({True: "passed", False: "failed", None: "unchecked"}[content.get(one)] for one in members)
    return {"loader": loader, "content": dict(verdicts)}


def of_episode(paths: StorePaths, episode_id: str) -> dict[str, Any]:
    """Return which datasets and checkpoints used an episode or recording.

    Raises:
        NotFoundError: No dataset holds it and the store does not either.
    """
    found = uses(paths, episode_id)
    published = open_store(paths, "zarr").episode_ids()
    if not found and episode_id not in published:
        raise NotFoundError(f"episode {episode_id}: not in store {paths.root}; {nearest(episode_id, published)}")
    digests = {use.digest for use in found}
    runs = []
    for path in sorted(paths.runs.glob("*/dataset.json")):
        try:
            value: Mapping[str, Any] = json.loads(path.read_text())
        except ValueError:
            continue
        for one in (value, *value.get("co_train", ())):
            if one.get("digest") in digests:
                checkpoints = sorted(str(item) for item in (path.parent / "checkpoints").glob("step-*.ckpt"))
                runs.append({"run": path.parent.name, "dataset": one.get("dataset"), "digest": one["digest"], "checkpoints": checkpoints})
    return {
        "episode": episode_id,
        "datasets": [{"dataset": use.dataset, "digest": use.digest, "head": use.head, "content": use.content} for use in found],
        "runs": runs,
    }


def _print_checkpoint(found: Mapping[str, Any]) -> None:
    git = found["git"] or {}
    echo(f"checkpoint {found['checkpoint']}: run {found['run']}, step {found['step']}, seed {found['seed']}, format {found['format']}")
    echo(f"code: git {git.get('revision', 'unknown')}{' with local changes' if git.get('changed') else ''}")
    if found["dagster"]:
        echo(f"made by Dagster run {found['dagster'].get('run_id')}")
    for one in (found, *found["co_train"]):
        _print_dataset(one)
    made = Counter((one["vendor"], one["delivery"], one["converter"], one["settings"][:12]) for one in found["episodes"])
    print_table("Made from", ["vendor", "delivery", "converter", "settings", "episodes"], [[*key, count] for key, count in made.items()])
    several = bool(found["co_train"])
    rows = [
        [f"{one['dataset']} {one['head']}" if several else one["head"], one["episode_id"], one["content"][:16], one["raw"][:16], one["uri"]]
        for one in found["episodes"][:SHOWN]
    ]
    print_table("Episodes", ["head", "episode", "content", "raw", "raw files"], rows)
    if len(found["episodes"]) > SHOWN:
        echo(f"and {len(found['episodes']) - SHOWN} more; --json lists all")
    for problem in found["problems"]:
        echo(f"problem: {problem}")


def _print_dataset(one: Mapping[str, Any]) -> None:
    dataset, provenance = one["dataset"], one["dataset"]["provenance"]
    echo(f"dataset {dataset['ref']}, digest {dataset['digest']}")
    echo(f"recipe {one['recipe'].get('name', 'unknown')}, statistics key {str(one['stats_key'])[:16]}")
    echo(f"frozen {provenance.get('created')} by egodata {provenance.get('egodata')}, Dagster run {provenance.get('run_id', 'none')}")
    for waiver in provenance.get("waivers", []):
        echo(f"waived: finding {waiver['id']} ({waiver['code']} of {waiver['episode']}) on {waiver['at']}: {waiver['reason']}")
    loader = ", ".join(f"{recipe} {'passed' if row['passed'] else 'FAILED'}" for recipe, row in one["parity"]["loader"].items())
    content = ", ".join(f"{count} {verdict}" for verdict, count in sorted(one["parity"]["content"].items()))
    echo(f"parity: loader {loader or 'never checked'}; content {content}")


def _print_episode(found: Mapping[str, Any]) -> None:
    rows = [[one["dataset"], one["head"], one["digest"][:16], one["content"][:16]] for one in found["datasets"]]
    print_table(f"Datasets with {found['episode']}", ["dataset", "head", "digest", "content"], rows)
    checkpoints = [[one["run"], one["dataset"], path] for one in found["runs"] for path in one["checkpoints"]]
    print_table("Checkpoints trained on them", ["run", "dataset", "checkpoint"], checkpoints)
