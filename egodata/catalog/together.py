"""Datasets that are used together: what one of them holds out, no other may train on."""

from collections.abc import Iterable, Sequence

from egodata.catalog.gates import leak_kinds, some
from egodata.catalog.manifest import HeadEpisode, Manifest
from egodata.errors import GateError

TRAIN = "train"


def check_together(manifests: Sequence[Manifest]) -> None:
    """Check datasets that are trained on in one run, each of which is sound by itself.

    No dataset comes twice; no episode, recording or media digest of a training head is in another dataset's other heads, nor a session or
    operator where that dataset's rule groups by it; operators that one dataset holds out are in no training head.

    Raises:
        GateError: One clause per failing pair of datasets, each naming the first five of what fails and how many there are.
    """
    refs = [manifest.ref for manifest in manifests]
    twice = sorted({ref for ref in refs if refs.count(ref) > 1})
    problems = [f"dataset {ref} comes twice; name it once" for ref in twice]
    for trained in manifests:
        for other in manifests:
            if other.ref != trained.ref:
                problems += [*_shared(trained, other), *_held_out(trained, other)]
    if problems:
        raise GateError(f"datasets {', '.join(refs)}: {'; '.join(problems)}")


def trained_on(head: Iterable[HeadEpisode], manifests: Sequence[Manifest], *, of: Manifest) -> list[str]:
    """Return which episodes of a head are, by themselves or by what no two heads may share, in a training head of the datasets.

    Args:
        head: Episodes.
        manifests: What is trained on.
        of: The dataset of the head, whose rule says what heads may not share.
    """
    train = [episode for manifest in manifests for episode in manifest.heads.get(TRAIN, ())]
    kinds = leak_kinds(of)
    known = {kind: {value_of(episode) for episode in train} - {None} for kind, value_of in kinds.items()}
    return [e.episode_id for e in head if any(value_of(e) in known[kind] for kind, value_of in kinds.items())]


def _shared(trained: Manifest, other: Manifest) -> Iterable[str]:
    held_out = [episode for head, members in other.heads.items() if head != TRAIN for episode in members]
    shared = trained_on(held_out, [trained], of=other)
    if shared:
        yield (
            f"{len(shared)} episodes that {other.ref} holds out are in the training head of {trained.ref}, by {_listed(other)}: "
            f"{some(shared)}; freeze {trained.ref} without them"
        )


def _listed(manifest: Manifest) -> str:
    *others, last = leak_kinds(manifest)
    return f"{', '.join(others)} or {last}"


def _held_out(trained: Manifest, other: Manifest) -> Iterable[str]:
    apart = set(other.held_out_operators)
    wrong = {episode.operator for episode in trained.heads.get(TRAIN, ()) if episode.operator in apart}
    if wrong:
        yield (
            f"operators that {other.ref} holds out are in the training head of {trained.ref}: {some(str(name) for name in wrong)}; "
            f"freeze {trained.ref} without them"
        )
