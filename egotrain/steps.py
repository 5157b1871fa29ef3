"""The trainer of the framework, set up so that it does what a run says and nothing else."""

import logging
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import lightning
from lightning.pytorch.plugins.environments import ClusterEnvironment, LightningEnvironment, TorchElasticEnvironment
from lightning.pytorch.strategies import DDPStrategy

from egotrain.conf import FitConfig
from egotrain.ranks import WAIT, Ranks


def make_trainer(config: FitConfig, callbacks: list[Any], *, ranks: Ranks) -> lightning.Trainer:
    """Return a trainer for the optimiser steps of a run; logs, checkpoints and data order are our own."""
    options: dict[str, Any] = {"devices": 1, "plugins": [LightningEnvironment()]}
    if ranks.world > 1:
        each = min(config.trainer.devices, ranks.world)
        environment: ClusterEnvironment = TorchElasticEnvironment() if TorchElasticEnvironment.detect() else LightningEnvironment()
        options = {"devices": each, "num_nodes": ranks.world // each, "plugins": [environment], "strategy": _strategy(config)}
    return lightning.Trainer(
        max_steps=config.trainer.max_steps,
        max_epochs=1,
        accelerator=config.trainer.accelerator,
        precision="bf16-mixed" if config.trainer.precision == "bf16" else "32-true",
        deterministic=True,
        logger=False,
        enable_checkpointing=False,
        enable_model_summary=False,
        enable_progress_bar=sys.stderr.isatty() and ranks.first,
        use_distributed_sampler=False,
        num_sanity_val_steps=0,
        callbacks=callbacks,
        **options,
    )


def _strategy(config: FitConfig) -> DDPStrategy:
    """Average gradients over ranks. A learned null is used only where its condition is dropped, so unused parameters are looked for."""
    hook = None
    if config.trainer.ddp_bf16:
        from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook

        hook = bf16_compress_hook
    return DDPStrategy(find_unused_parameters=True, timeout=WAIT, ddp_comm_hook=hook)


@contextmanager
def quiet_lightning() -> Iterator[None]:
    """Keep the framework's advice that does not apply here out of the way, and let Ctrl-C be one.

    Our loader resumes by itself, and logs are our own. The trainer answers Ctrl-C with SystemExit and ignores the signal from then on.
    """
    logger = logging.getLogger("lightning.pytorch")
    level, handler = logger.level, signal.getsignal(signal.SIGINT)
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module="lightning.*")
            warnings.filterwarnings("ignore", message=".*dataloader is not resumable.*")
            yield
    except SystemExit as stop:
        if isinstance(stop.__context__, KeyboardInterrupt):
            raise stop.__context__ from stop
        raise
    finally:
        logger.setLevel(level)
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, handler)
