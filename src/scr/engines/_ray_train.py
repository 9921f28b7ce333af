"""A group of workers on a Ray cluster that compute one thing together, by Ray Train.

Ray Train starts the workers, connects them with torch.distributed (gloo; nccl between GPUs) and,
when one of them or its machine is lost, starts all of them again, on as many as there is room for.
What they do is a function that finds by itself where it had been, such as by a checkpoint.

Workers and the caller talk through a `Board`, an actor beside the caller: Ray Train runs its
controller in a process of its own, so that its callbacks would not reach the caller.
"""

from __future__ import annotations

import math
import os
import shutil
import tempfile
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import ray
from ray import cloudpickle, exceptions, train
from ray.train.torch import TorchConfig
from ray.train.v2._internal.callbacks import DatasetsCallback
from ray.train.v2._internal.callbacks.placement_group_callback import (
    PlacementGroupCleanerCallback,
)
from ray.train.v2._internal.execution.scaling_policy import ElasticScalingPolicy
from ray.train.v2.api.config import FailureConfig, LoggingConfig, RunConfig, ScalingConfig
from ray.train.v2.torch.torch_trainer import TorchTrainer
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from scr.compute import TorchGroup, joined
from scr.engines._base import Link, Needs, Together
from scr.engines._board import Board
from scr.errors import EngineError, SCRError

_untyped: Any = ray
_pickle: Any = cloudpickle
"""Functions without types."""
POLL_SECONDS = 0.25
"""Between two looks at what the workers say."""
END_SECONDS = 10.0
"""That workers may take to end after an interrupt."""
ROOM_SECONDS = 60.0
"""Between two looks for room for more workers."""
ANSWER_SECONDS = 5.0
"""That Ray may take to count its machines."""
START_SECONDS = 20.0
"""That a group waits for room for its workers before it looks again how many there is room for.
After a machine is lost, the first look may count it still; by default, Ray waits for a minute."""
os.environ.setdefault("RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S", str(START_SECONDS))


def run_together(
    function: Together[Any, Any],
    argument: Any,
    *,
    workers: int,
    needs: Needs,
    grows: bool = False,
    on_message: Callable[[Any], None] = lambda message: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Any:
    """What a function returns on rank 0; arguments as of `Engine.together`."""
    here = NodeAffinitySchedulingStrategy(_untyped.get_runtime_context().get_node_id(), soft=False)
    board = _untyped.remote(num_cpus=0, scheduling_strategy=here)(Board).remote()
    folder = tempfile.mkdtemp(prefix="scr-ray-train-")  # Ray Train writes its records somewhere
    trainer = _Trainer(
        _member,
        train_loop_config={"setup": [_untyped.put((function, argument))], "board": board},
        # On a GPU, numbers that are in main memory take part as well, such as masks.
        torch_config=TorchConfig(backend="cpu:gloo,cuda:nccl" if needs.gpu else "gloo"),
        scaling_config=ScalingConfig(
            num_workers=(1, workers), use_gpu=needs.gpu, resources_per_worker=_resources(needs),
            placement_strategy="SPREAD",
            elastic_resize_monitor_interval_s=ROOM_SECONDS if grows else math.inf,
        ),
        run_config=RunConfig(
            storage_path=folder, failure_config=FailureConfig(max_failures=-1),
            logging_config=LoggingConfig(log_level="ERROR"),
        ),
    )  # fmt: skip
    failures: list[BaseException] = []

    def fit() -> None:
        try:
            trainer.fit()
        except BaseException as error:  # noqa: BLE001 - raised by the caller's thread
            failures.append(error)

    # In a thread of its own: Ray Train would take Ctrl-C for itself and end the workers at once.
    thread = threading.Thread(target=fit, name="ray-train", daemon=True)
    thread.start()
    try:
        is_alive = True
        while is_alive:
            thread.join(POLL_SECONDS)
            is_alive, is_stopped = thread.is_alive(), should_stop()
            messages, has_begun = ray.get(board.take.remote(is_stopped))
            for message in messages:
                on_message(_pickle.loads(message))
            if is_alive and is_stopped and not has_begun:
                raise KeyboardInterrupt  # no worker is there to hear of it
        return _result(ray.get(board.result.remote()), failures)
    except exceptions.RayError as error:
        raise EngineError(f"The workers were lost: {error}") from None
    finally:
        if thread.is_alive():
            with suppress(exceptions.RayError):
                ray.get(board.take.remote(True), timeout=END_SECONDS)
            thread.join(END_SECONDS)
        ray.kill(board)
        shutil.rmtree(folder, ignore_errors=True)


class _Trainer(TorchTrainer):
    """Without actors that have nothing to do here, each of which takes seconds to start.

    One serves data sets of Ray. The other frees what the workers had after the controller was lost
    alone, for which it asks a service that not all clusters have; all is freed when we end.
    """

    def _create_default_callbacks(self) -> list[Any]:
        callbacks: list[Any] = super()._create_default_callbacks()
        return [
            each
            for each in callbacks
            if not isinstance(each, DatasetsCallback | PlacementGroupCleanerCallback)
        ]

    def _initialize_and_run_controller(self, **settings: Any) -> Any:
        scaling: Any = self.scaling_config
        settings["scaling_policy"] = _ByPresentRoom(scaling)
        return super()._initialize_and_run_controller(**settings)


class _ByPresentRoom(ElasticScalingPolicy):
    """Counts the machines that there are now.

    Ray Train itself looks for them three times a minute, and waits for room on one that is lost.
    """

    def _get_reserved_resources(self) -> Any:
        with suppress(Exception):  # what was counted last serves as well
            room = self._autoscaling_coordinator.get_reserved_resources
            _untyped.get(room.remote(self._requester_id, recompute=True), timeout=ANSWER_SECONDS)
        return super()._get_reserved_resources()


def _resources(needs: Needs) -> dict[str, float]:
    resources: dict[str, float] = {"CPU": needs.cores}
    if needs.memory_bytes:
        resources["memory"] = needs.memory_bytes
    if needs.gpu:
        resources["GPU"] = 1
    return resources


def _result(outcome: tuple[str, Any], failures: list[BaseException]) -> Any:
    kind, value = outcome
    if kind == "finished":
        return _pickle.loads(value)
    if kind == "error":
        raise _pickle.loads(value)
    said = value or "; ".join(f"{type(each).__name__}: {each}" for each in failures)
    raise EngineError(f"The workers failed: {said or 'they ended without a result'}") from None


class _BoardLink(Link):
    def __init__(self, board: Any) -> None:
        self._board = board

    def send(self, message: Any, progress: int) -> None:
        ray.get(self._board.send.remote(_pickle.dumps(message), progress))

    def should_stop(self) -> bool:
        return bool(ray.get(self._board.stops.remote()))


def _member(config: dict[str, Any]) -> None:
    """One worker, from the start of its group to its end."""
    board = config["board"]
    group = TorchGroup()
    with joined(group):
        # After an error that a new start would only repeat, the group ends without a word.
        if not group.same(ray.get(board.begin.remote()) if group.rank == 0 else False):
            return
        try:
            function, argument = ray.get(config["setup"][0])
            result = function(argument, _BoardLink(board))
        except SCRError as error:
            ray.get(board.end.remote("error", _pickle.dumps(error)))
            raise
        except Exception:
            ray.get(board.note.remote(f"{_host()}\n{traceback.format_exc()}"))
            raise
    if group.rank == 0:
        ray.get(board.end.remote("finished", _pickle.dumps(result)))


def _host() -> str:
    context = train.get_context()
    return f"rank {context.get_world_rank()} on {_untyped.util.get_node_ip_address()}:"
