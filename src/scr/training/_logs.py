"""Training logs that other tools read: TensorBoard's event files, and runs of MLflow.

A log is a callback of `NodeClassifier.fit(graph, on_epoch=log)`. It records every number of every
epoch under its name in `history_`, and is closed at the end, best by a `with` statement.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from scr.errors import ConfigError, SCRError
from scr.training._records import EpochRecord

_NOT_MEASURED = ("epoch", "stage")


def measured(record: EpochRecord) -> dict[str, float]:
    """The numbers of an epoch by their names; what was not measured is left out."""
    return {
        name: float(value)
        for name, value in record.table().items()
        if value is not None and name not in _NOT_MEASURED
    }


class TensorBoardLog:
    """Writes epochs to an event file, for ``tensorboard --logdir``."""

    def __init__(self, folder: str | Path) -> None:
        """Open a new event file.

        Args:
            folder: Where event files are kept; a folder per run gives a curve per run.
        """
        try:
            import tensorboard  # noqa: F401  (torch's writer needs it)
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise _missing("tensorboard") from None
        try:
            self._writer: Any = SummaryWriter(str(folder))
        except OSError as error:
            raise SCRError(f"No log can be written to `{folder}`: {error.strerror}") from None

    def __call__(self, record: EpochRecord) -> None:
        """Record an epoch."""
        for name, value in measured(record).items():
            self._writer.add_scalar(name, value, record.epoch)
        self._writer.flush()  # who watches sees it at once, and a crash loses nothing

    def close(self) -> None:
        """Close the file."""
        self._writer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class MLflowLog:
    """Records epochs in a new run of MLflow."""

    def __init__(
        self,
        uri: str | Path,
        *,
        experiment: str = "scr",
        name: str | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        """Start a run.

        Args:
            uri: Of the tracking server, such as ``http://localhost:5000``, or a folder.
            experiment: The experiment that the run belongs to; made if there is none.
            name: Of the run; none: MLflow makes one up.
            settings: What the run was made with, such as ``classifier.resolve(graph).tables()``;
                sections become names with dots.
        """
        try:
            from mlflow import MlflowClient
            from mlflow.exceptions import MlflowException
        except ImportError:
            raise _missing("mlflow-skinny") from None
        try:
            self._client = MlflowClient(tracking_uri=str(uri))
            known = self._client.get_experiment_by_name(experiment)
            number = (
                self._client.create_experiment(experiment) if known is None else known.experiment_id
            )
            self.run_id: str = self._client.create_run(number, run_name=name).info.run_id
            for key, value in _flat(settings or {}).items():
                self._client.log_param(self.run_id, key, value)
        except (MlflowException, OSError) as error:
            reason = str(error).partition("\n")[0]
            raise SCRError(f"MLflow at `{uri}` cannot be used: {reason}") from None

    def __call__(self, record: EpochRecord) -> None:
        """Record an epoch."""
        for name, value in measured(record).items():
            self._client.log_metric(self.run_id, name, value, step=record.epoch)

    def close(self, *, failed: bool = False) -> None:
        """End the run."""
        self._client.set_terminated(self.run_id, "FAILED" if failed else "FINISHED")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: object, __: TracebackType | None
    ) -> None:
        self.close(failed=kind is not None)


def open_log(text: str, settings: Mapping[str, Any] | None = None) -> TensorBoardLog | MLflowLog:
    """The log that `tensorboard:FOLDER` or `mlflow:URI` names; `settings` are for MLflow."""
    kind, _, where = text.partition(":")
    if kind == "tensorboard" and where:
        return TensorBoardLog(where)
    if kind == "mlflow" and where:
        return MLflowLog(where, settings=settings)
    raise ConfigError("log", text, "tensorboard:FOLDER or mlflow:URI")


def _flat(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Tables of tables with dots in names: ``{"training": {"epochs": 3}}`` is `training.epochs`."""
    flat: dict[str, Any] = {}
    for key, value in tables.items():
        if isinstance(value, Mapping):
            flat |= {f"{key}.{name}": inner for name, inner in _flat(value).items()}
        else:
            flat[key] = value
    return flat


def _missing(package: str) -> SCRError:
    return SCRError(
        f"The log needs {package}, which is not installed",
        hint=f"install it with `pip install {package}`",
    )
