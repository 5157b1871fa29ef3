"""Where the episode work of a batch runs: in this process, in spawned processes, or on a Ray cluster. The work is the same function.

``EGO_EXECUTOR`` is ``in_process``, ``spawned`` (the default) or ``ray``; ``EGO_RAY_ADDRESS`` names a cluster, else a local one is started.
"""

import os
from collections.abc import Generator, Iterator, Sequence
from typing import Any

from egodata.errors import InputError, MissingExtraError
from egodata.findings import Finding, Severity
from egodata.ingest import Outcome, RawDigests, Spread
from egodata.ingest.build import Job, set_aside, treat
from egodata.names import nearest
from egodata.vendors import RecordingRef

EXECUTOR_VARIABLE, RAY_ADDRESS_VARIABLE = "EGO_EXECUTOR", "EGO_RAY_ADDRESS"
IN_PROCESS, SPAWNED, RAY = "in_process", "spawned", "ray"
EXECUTORS = (IN_PROCESS, SPAWNED, RAY)
ATTEMPTS = 2
"""How often a recording is tried whose worker dies, as with spawned processes."""
_Pending = tuple[RecordingRef, RawDigests | None]


def executor_name(given: str = "") -> str:
    """Return the executor that is asked for: the argument, else what the environment names.

    Raises:
        InputError: There is none of that name.
    """
    name = given or os.environ.get(EXECUTOR_VARIABLE, SPAWNED)
    if name not in EXECUTORS:
        raise InputError(f"{EXECUTOR_VARIABLE}={name!r}: {nearest(name, EXECUTORS)}")
    return name


def spread_for(name: str) -> Spread | None:
    """Return what treats recordings away from this machine; None where this machine's processes do."""
    return _on_ray if name == RAY else None


def workers_for(name: str, wanted: int) -> int:
    """Return how many processes of this machine a batch uses; 0 is the batch's own."""
    return 0 if name == IN_PROCESS else wanted


def _ray() -> Any:
    try:
        import ray  # an extra: a laptop does not need a cluster
    except ImportError as error:
        raise MissingExtraError(f"{EXECUTOR_VARIABLE}=ray: Ray is not installed. pip install 'egodata[ray]'") from error
    return ray


def _on_ray(waiting: Sequence[_Pending], job: Job) -> Iterator[Outcome]:
    """Treat recordings as Ray tasks and give outcomes one at a time, as each completes.

    The store and the deliveries have to lie on a disk that every node sees under the same path.
    """
    ray = _ray()
    started = not ray.is_initialized()
    if started:
        ray.init(
            address=os.environ.get(RAY_ADDRESS_VARIABLE) or "local", log_to_driver=False, include_dashboard=False, configure_logging=False
        )
    try:
        yield from _completed(ray, waiting, job)
    finally:
        if started:
            ray.shutdown()


def _completed(ray: Any, waiting: Sequence[_Pending], job: Job) -> Generator[Outcome, None, None]:
    task = ray.remote(num_cpus=1, max_retries=0)(treat)
    running = {task.remote(ref, job, raw=raw): (ref, raw, 1) for ref, raw in waiting}
    try:
        while running:
            (done,), _ = ray.wait(list(running), num_returns=1)
            ref, raw, attempt = running.pop(done)
            try:
                outcome = ray.get(done)
            except ray.exceptions.RayError as error:
                if attempt < ATTEMPTS:
                    running[task.remote(ref, job, raw=raw)] = (ref, raw, attempt + 1)
                    continue
                yield set_aside(ref, job, findings=(_died(ref, error),), raw=raw)
            else:
                yield outcome
    finally:
        for left in running:
            ray.cancel(left, force=True)


def _died(ref: RecordingRef, error: Exception) -> Finding:
    reason = str(error).strip().splitlines()[0][:200] if str(error).strip() else type(error).__name__
    message = f"its Ray worker died {ATTEMPTS} times ({reason}). Look at the node's memory, and that it sees store and delivery."
    return Finding("worker-died", Severity.ERROR, ref.id, message)
