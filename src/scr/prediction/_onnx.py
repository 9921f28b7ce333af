"""A trained model as ONNX: what is computed for each node, to be run without torch and scr.

Two files, since propagation along the edges lies between them and is the caller's own:

    preparation   features (rows, columns)               -> prepared (rows, width)
    head          hops (rows, hops, width), label hops   -> probabilities (rows, classes)

The hops of a node are its row of X', A X', A^2 X'..., with X' the prepared features. Raw hops would
not do: scaling of rows does not commute with propagation. All that comes after the propagation is
in the head: hops brought to length 1 or mixed by fixed weights, the encoder, the temperature.
"""

from __future__ import annotations

import json
import logging
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from scr import training
from scr.encoders import HopBatch
from scr.encoders.fused import plain_functions
from scr.errors import ConfigError, RunError, SCRError
from scr.features import FittedFeatures
from scr.graph import Graph, check_graph
from scr.networks import OWN, GraphEncoder
from scr.prediction._ensemble import EnsemblePredictor
from scr.prediction._other_graphs import node_numbers
from scr.propagation import propagate
from scr.storage import write_bytes

if TYPE_CHECKING:
    from scr.prediction._predictor import Predictor
    from scr.prediction._stored_model import TrainedModel

ExportPart = Literal["head", "preparation"]
PARTS = ("head", "preparation")
ROWS = 3
"""Of the example that an exporter follows; any number of rows can be run."""
OPSET = 18


class OnnxExport:
    """Writes a classifier's model as ONNX."""

    if TYPE_CHECKING:

        def _trained(self) -> Predictor: ...
        def _numbers(self, nodes: ArrayLike | None, graph: Graph | None) -> Any: ...

    def export_onnx(self, path: str | Path, *, part: ExportPart = "head") -> Path:
        """Write the trained model as an ONNX file, which onnxruntime and others run.

        Args:
            path: The file; replaced if it exists.
            part: ``"head"``: from hops of prepared features (`onnx_inputs`) to the probabilities of
                `predict_proba`. ``"preparation"``: from features to prepared features.

        Returns:
            The path.
        """
        if part not in PARTS:
            raise ConfigError("part", part, f"one of {', '.join(PARTS)}")
        model = _exportable(self._trained())
        file = Path(path)
        write_bytes(file, _head(model) if part == "head" else _preparation(model))
        return file

    def onnx_inputs(
        self, nodes: ArrayLike | None = None, *, graph: Graph | None = None
    ) -> dict[str, NDArray[np.float32]]:
        """What the head of `export_onnx` reads of some nodes, by the names of its inputs.

        Args:
            nodes: As of `predict_proba`.
            graph: As of `predict_proba`.

        Returns:
            ``hops`` of shape (nodes, hops, features) and, if the model reads propagated labels,
            ``label_hops`` of shape (nodes, label hops, classes).
        """
        predictor = self._trained()
        model = _exportable(predictor)
        chosen = self._numbers(nodes, graph)
        known = predictor.known if graph is None else check_graph(graph)
        index = None if chosen is None else node_numbers(chosen, known.num_targets)
        rows = predictor.rows(graph, index)
        index = rows.nodes() if index is None else index
        batch = rows.batch(torch.from_numpy(index))
        hops = batch.hops.cpu().numpy()
        if training.fixed_mixture(model.recipe) is not None:
            config = model.recipe.propagation
            features = training.node_features(known, model.recipe.data, model.features).matrix()
            array = propagate(
                known, config.hops, config.norm, config.self_loops, config.direction,
                features=features,
            )  # fmt: skip
            hops = np.asarray(array)[index]
        given = {"hops": np.ascontiguousarray(hops, np.float32)}
        if batch.labels is not None:
            given["label_hops"] = batch.labels.cpu().numpy()
        return given


def _exportable(predictor: Predictor) -> TrainedModel:
    model = predictor.model
    if isinstance(predictor, EnsemblePredictor):
        raise RunError(
            "The run is an average of several models, each with hops of its own; expected a run of "
            "one model to export",
            hint="train one on the same graph with `scr train`; a run of `scr fit` has it in its "
            "folder `graph`",
        )
    name = model.recipe.encoder
    if isinstance(model.encoder, GraphEncoder):
        raise RunError(
            f"The encoder `{name}` reads the edges of the graph in every layer; expected one that "
            "reads hops, such as ssgc, sign, sagn or gamlp, to export"
        )
    if name in OWN:
        raise RunError(
            "The model is a torch module of your own; expected an encoder of scr to export",
            hint="`torch.onnx.export(classifier.module_, ...)`",
        )
    return model


class _Head(nn.Module):
    """From hops to probabilities."""

    mixture: Tensor | None

    def __init__(self, model: TrainedModel) -> None:
        super().__init__()
        self.encoder, self.multilabel = model.encoder, model.multilabel
        self.temperature = float(model.calibration.temperature)
        config, mixture = model.recipe.propagation, training.fixed_mixture(model.recipe)
        fixed = None if mixture is None else torch.from_numpy(mixture)
        self.register_buffer("mixture", fixed, persistent=False)
        self.unit_hops = config.hop_scale == "unit" or (
            mixture is None and config.row_scale == "unit"
        )
        self.unit_mixture = mixture is not None and config.row_scale == "unit"

    def forward(self, hops: Tensor, label_hops: Tensor | None = None) -> Tensor:
        if self.unit_hops:
            hops = _unit(hops)
        if self.mixture is not None:
            hops = torch.einsum("k,rkf->rf", self.mixture, hops).unsqueeze(1)
        if self.unit_mixture:
            hops = _unit(hops)
        logits: Tensor = self.encoder(HopBatch(hops, label_hops))
        if self.multilabel:
            return torch.sigmoid(logits)
        return torch.softmax(logits / self.temperature, dim=-1)


class _Preparation(nn.Module):
    """From features to prepared features, as `FittedFeatures.transform`."""

    shift: Tensor | None
    factor: Tensor | None
    projection: Tensor | None

    def __init__(self, fitted: FittedFeatures) -> None:
        super().__init__()
        projection: Any = fitted.projection
        dense = projection if isinstance(projection, np.ndarray | None) else projection.toarray()
        arrays = {"shift": fitted.shift, "factor": fitted.factor, "projection": dense}
        for name, array in arrays.items():
            tensor = None if array is None else torch.from_numpy(np.array(array, np.float32))
            self.register_buffer(name, tensor)
        self.scale = fitted.scale

    def forward(self, features: Tensor) -> Tensor:
        if self.shift is not None:
            features = features - self.shift
        if self.factor is not None:
            features = features * self.factor
        if self.scale == "row":
            features = _divided(features, features.abs().sum(dim=-1, keepdim=True))
        elif self.scale in ("unit", "tfidf"):
            features = _unit(features)
        return features if self.projection is None else features @ self.projection


def _unit(rows: Tensor) -> Tensor:
    return _divided(rows, rows.square().sum(dim=-1, keepdim=True).sqrt())


def _divided(rows: Tensor, sizes: Tensor) -> Tensor:
    """Rows divided by their sizes; rows of zeros stay zeros."""
    return rows / torch.where(sizes > 0, sizes, torch.ones_like(sizes))


def _head(model: TrainedModel) -> bytes:
    shape = model.shape
    matrices = 1 + (shape.hops - 1) * shape.subsets
    mixture = training.fixed_mixture(model.recipe)
    if mixture is not None:
        matrices = len(mixture)
    examples = {"hops": torch.rand(ROWS, matrices, shape.features)}
    if shape.label_hops:
        examples["label_hops"] = torch.rand(ROWS, shape.label_hops, shape.classes)
    tables = model.recipe.tables()
    facts = {
        "encoder": model.recipe.encoder,
        "classes": json.dumps(model.class_names),
        "propagation": json.dumps(tables["propagation"]),
        "temperature": repr(float(model.calibration.temperature)),
    }
    return _exported(_Head(model), examples, "probabilities", facts)


def _preparation(model: TrainedModel) -> bytes:
    fitted = model.features
    if not isinstance(fitted, FittedFeatures):
        raise RunError(
            "The features of the run were completed over several types of nodes; expected one type "
            "whose features are prepared row by row to export",
        )
    examples = {"features": torch.rand(ROWS, fitted.columns)}
    return _exported(
        _Preparation(fitted), examples, "prepared", {"steps": json.dumps(list(fitted.steps))}
    )


def _exported(
    module: nn.Module, examples: dict[str, Tensor], output: str, facts: dict[str, str]
) -> bytes:
    """The ONNX file of a module for any number of rows; `facts` become its metadata."""
    try:
        import onnx
        import onnxscript  # noqa: F401  (torch's exporter needs it)
    except ImportError:
        raise SCRError(
            "An export needs onnx and onnxscript, which are not installed",
            hint="install them with `pip install onnx onnxscript`",
        ) from None
    device = next((each.device for each in module.parameters()), torch.device("cpu"))
    rows = torch.export.Dim("rows")
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir")]
    levels = [each.level for each in loggers]
    try:
        for each in loggers:
            each.setLevel(logging.ERROR)
        with warnings.catch_warnings(), plain_functions(), torch.no_grad():
            warnings.simplefilter("ignore")
            program = torch.onnx.export(
                module.cpu().eval(), tuple(examples.values()), dynamo=True, opset_version=OPSET,
                input_names=list(examples), output_names=[output], verbose=False,
                dynamic_shapes=tuple({0: rows} for _ in examples),
            )  # fmt: skip
    finally:
        module.to(device)
        for each, level in zip(loggers, levels, strict=True):
            each.setLevel(level)
    assert program is not None
    proto = program.model_proto
    # An exporter that cannot follow the number of rows would fix it to that of the example.
    assert all(each.type.tensor_type.shape.dim[0].dim_param for each in proto.graph.input)
    for name, value in facts.items():
        proto.metadata_props.add(key=f"scr.{name}", value=value)
    onnx.checker.check_model(proto)
    return bytes(proto.SerializeToString())
