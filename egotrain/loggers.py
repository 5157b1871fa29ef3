"""Where metrics go: a CSV file and TensorBoard always, Weights & Biases where a project is named. Rank 0 only."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from egodata.errors import ConfigError
from egotrain.conf import FitConfig
from egotrain.runs import METRICS, MetricsFile

TENSORBOARD = "tensorboard"
Row = tuple[str, str, str, float]


class MetricsLog:
    """Rows of (head, who, metric, value) per step, written everywhere at once; the CSV file is the one that is read back."""

    def __init__(self, folder: Path, config: FitConfig, *, start_step: int) -> None:
        """Open the logs of a run.

        Args:
            folder: Of the run.
            config: Of the run.
            start_step: Where it begins or goes on; later rows of an earlier attempt are dropped.

        Raises:
            ConfigError: A project is named, and the extra is not installed.
        """
        from torch.utils.tensorboard import SummaryWriter  # slow to load, and needed by ranks that write only

        self.file = MetricsFile(folder / METRICS)
        if start_step:
            self.file.cut_after(start_step)
        else:
            self.file.path.unlink(missing_ok=True)
        self._board = SummaryWriter(str(folder / TENSORBOARD), purge_step=start_step + 1 if start_step else None)
        self._wandb = _wandb_run(folder, config) if config.trainer.wandb_project else None

    def add(self, step: int, rows: Sequence[Row]) -> None:
        """Append rows of one step."""
        self.file.add(step, rows)
        named = {f"{head}/{who}/{metric}": value for head, who, metric, value in rows}
        for name, value in named.items():
            self._board.add_scalar(name, value, step)
        self._board.flush()
        if self._wandb is not None:
            self._wandb.log(named, step=step)

    def close(self) -> None:
        """Finish the logs."""
        self._board.close()
        if self._wandb is not None:
            self._wandb.finish()


def _wandb_run(folder: Path, config: FitConfig) -> Any:
    try:
        import wandb  # type: ignore[import-not-found, unused-ignore]
    except ImportError as error:
        project = config.trainer.wandb_project
        raise ConfigError(
            f"trainer.wandb_project {project!r}: wandb is not installed. pip install 'egodata[wandb]', or leave it empty."
        ) from error
    return wandb.init(project=config.trainer.wandb_project, name=config.run, id=config.run, dir=str(folder), resume="allow")
