"""Frozen datasets, their statistics, and the proof that both formats give the same samples."""

from functools import partial

import dagster as dg

from egodata.catalog import freeze, load_dataset
from egodata.formats import open_store
from egodata.parity import check_parity
from egodata.reports.dataset_card import write_card
from egodata.reports.stats_page import report_folder, write_report
from egodata.sampling import load_recipe
from egodata.stats import norm_stats, stats_report
from pipelines.assets.tables import LANCE_V2, PARITY_REPORT
from pipelines.dataset_checks import finite_verdicts, leakage_verdicts, parity_verdicts, require_passed
from pipelines.gates import require_content_parity
from pipelines.history import keep_verdicts
from pipelines.metadata import checks_table, dataset_metadata, parity_metadata, stats_metadata
from pipelines.partitions import DATASET_RECIPES, DATASETS, split_key
from pipelines.plots import stats_plot
from pipelines.progress import log_progress
from pipelines.provenance import provenance_of
from pipelines.resources import OWNER, StoreResource
from pipelines.rules import rule_for

DATASET = dg.AssetKey("dataset")
NORM_STATS = dg.AssetKey("norm_stats")
LOADER_PARITY = dg.AssetKey("loader_parity")
OF_DATASET = dg.AssetDep(DATASET, partition_mapping=dg.SpecificPartitionsPartitionMapping([]))
"""A recipe's partition needs the dataset that its key begins with, which no mapping that the daemon knows can say. This one draws the edge
and names no partition: a frozen dataset never changes, so nothing made from it gets stale, and a new version leaves the others fresh.
What else was tried is in docs/decisions/009-dagster-pages.md."""


@dg.asset(
    key=DATASET,
    deps=[LANCE_V2, PARITY_REPORT],
    partitions_def=DATASETS,
    group_name="datasets",
    kinds={"json"},
    owners=[OWNER],
    code_version="1",
    description="A frozen split: ordered episode ids with digests for each head, pins, and where it came from. Changed content is refused.",
)
def dataset(context: dg.AssetExecutionContext, store: StoreResource) -> dg.MaterializeResult[None]:
    """Freeze the dataset that the partition names, by the rule of the same name."""
    paths = store.paths()
    name, version = split_key(context.partition_key, 2)
    provenance = provenance_of(context, [LANCE_V2, PARITY_REPORT])
    gate = partial(require_content_parity, paths)
    frozen = freeze(paths, rule_for(paths, name), version=version, format="lance", provenance=provenance, gate=gate)
    card = write_card(paths, frozen.manifest, store=open_store(paths, "lance", versions=frozen.manifest.lance_versions))
    verdicts = leakage_verdicts(frozen.manifest)
    keep_verdicts(paths, {context.partition_key: verdicts}, asset="dataset", run_id=context.run.run_id)
    metadata = {**dataset_metadata(frozen), "card": dg.MetadataValue.path(card), "checks": checks_table(verdicts)}
    return dg.MaterializeResult(data_version=dg.DataVersion(frozen.manifest.digest), metadata=metadata)


@dg.asset(
    key=NORM_STATS,
    deps=[OF_DATASET],
    partitions_def=DATASET_RECIPES,
    group_name="stats",
    kinds={"json"},
    owners=[OWNER],
    code_version="1",
    description="Statistics of a dataset's training head under a recipe, in a cache keyed by content.",
)
def norm_stats_asset(context: dg.AssetExecutionContext, store: StoreResource) -> dg.MaterializeResult[None]:
    """Compute statistics, or find them in the cache."""
    paths = store.paths()
    name, version, recipe_name = split_key(context.partition_key, 3)
    manifest = load_dataset(paths, f"{name}@{version}", format="lance")
    recipe, progress = load_recipe(recipe_name), log_progress(context.log.info)
    stats = norm_stats(paths, manifest, recipe=recipe, format="lance", progress=progress)
    report = stats_report(paths, manifest, recipe=recipe, stats=stats, format="lance", progress=progress)
    page, _ = write_report(report_folder(paths, stats, dataset=manifest.ref), report, stats=stats)
    verdicts = finite_verdicts(stats)
    keep_verdicts(paths, {context.partition_key: verdicts}, asset="norm_stats", run_id=context.run.run_id)
    require_passed(context, verdicts, what=f"statistics of {manifest.ref}")
    metadata = {**stats_metadata(stats), "report": dg.MetadataValue.path(page), "plot": stats_plot(stats), "checks": checks_table(verdicts)}
    return dg.MaterializeResult(data_version=dg.DataVersion(stats.key), metadata=metadata)


@dg.asset(
    key=LOADER_PARITY,
    deps=[OF_DATASET],
    partitions_def=DATASET_RECIPES,
    group_name="parity",
    kinds={"lance"},
    owners=[OWNER],
    code_version="1",
    description="The same global index gives the same sample from zarr and from Lance. Training starts only on datasets that passed.",
)
def loader_parity(context: dg.AssetExecutionContext, store: StoreResource) -> dg.MaterializeResult[None]:
    """Compare samples of a dataset under a recipe, and append the verdict to the parity table."""
    paths = store.paths()
    name, version, recipe = split_key(context.partition_key, 3)
    manifest = load_dataset(paths, f"{name}@{version}")
    report = check_parity(paths, dataset=manifest, recipe=load_recipe(recipe), progress=log_progress(context.log.info))
    keep_verdicts(paths, {context.partition_key: parity_verdicts(report)}, asset="loader_parity", run_id=context.run.run_id)
    return dg.MaterializeResult(metadata=parity_metadata(report))
