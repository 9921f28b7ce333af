"""The papers' formulas for one row, in plain loops over numbers: what encoders are held against."""

from __future__ import annotations

import math

import torch
from torch import nn

from scr.encoders import HopBatch, ProblemShape
from scr.networks import make_encoder

Vector = list[float]


def trained_encoder(name, settings, *, label_hops=0, hops=4, features=6, classes=5):
    """An encoder in double precision whose parameters and statistics are all random."""
    torch.manual_seed(7)
    shape = ProblemShape(features=features, hops=hops, classes=classes, label_hops=label_hops)
    encoder = make_encoder(name, settings, shape).double().eval()
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
        for key, buffer in encoder.named_buffers():
            if key.endswith("running_mean"):
                buffer.normal_(0, 0.5)
            if key.endswith("running_var"):
                buffer.uniform_(0.5, 2)
    labels = torch.rand(9, label_hops, classes, dtype=torch.float64) if label_hops else None
    return encoder, HopBatch(torch.randn(9, hops, features, dtype=torch.float64), labels)


def linear(x: Vector, weight: torch.Tensor, bias: torch.Tensor | None = None) -> Vector:
    """y_j = sum_i x_i W_ij + b_j."""
    rows, columns = weight.shape
    assert len(x) == rows
    start = [0.0] * columns if bias is None else bias.tolist()
    matrix = weight.tolist()
    return [start[j] + sum(x[i] * matrix[i][j] for i in range(rows)) for j in range(columns)]


def batch_norm(x: Vector, norm: nn.Module, first: int = 0) -> Vector:
    """(x - mean) / sqrt(var + 1e-5) * gamma + beta, for columns from `first` on."""
    if isinstance(norm, nn.Identity):
        return x
    columns = range(first, first + len(x))
    mean, variance = norm.running_mean.tolist(), norm.running_var.tolist()
    gamma, beta = norm.weight.tolist(), norm.bias.tolist()
    return [
        (value - mean[j]) / math.sqrt(variance[j] + 1e-5) * gamma[j] + beta[j]
        for value, j in zip(x, columns, strict=True)
    ]


def prelu(x: Vector, slope: float) -> Vector:
    return [value if value > 0 else slope * value for value in x]


def softmax(x: Vector) -> Vector:
    powers = [math.exp(value) for value in x]
    return [power / sum(powers) for power in powers]


def dot(x: Vector, y: Vector) -> float:
    return sum(a * b for a, b in zip(x, y, strict=True))


def add(x: Vector, y: Vector) -> Vector:
    return [a + b for a, b in zip(x, y, strict=True)]


def weighted_sum(weights: Vector, vectors: list[Vector]) -> Vector:
    return [dot(weights, [vector[j] for vector in vectors]) for j in range(len(vectors[0]))]


def leaky_relu(value: float) -> float:
    return value if value > 0 else 0.2 * value


def perceptron(x: Vector, module: nn.Module, group: int = 0, head: int = 0) -> Vector:
    """Linear, norm, activation, ..., linear: one group and head of a `FeedForward`."""
    heads, which = module.heads, group * module.heads + head
    slope = 0.0 if module.slope is None else module.slope[which].item()
    for index, layer in enumerate(module.layers):
        weight, bias = layer.weight, layer.bias
        if index == 0:
            width = weight.shape[2] // heads
            part = slice(head * width, (head + 1) * width)
            x = linear(x, weight[group][:, part], bias[group][part])
        else:
            x = linear(x, weight[which], bias[which])
        if index < len(module.layers) - 1:
            x = prelu(batch_norm(x, module.norms[index], which * len(x)), slope)
    return x


def initial_residual(x: Vector, module: nn.Module) -> Vector:
    """GAMLP's output perceptron, with its shortcuts."""
    slope, alpha = module.slope.item(), module.alpha

    def layer(index: int, y: Vector) -> Vector:
        own = module.layers[index]
        bias = None if own.bias is None else own.bias[0]
        return batch_norm(linear(y, own.weight[0], bias), module.norms[index])

    last = len(module.layers) - 1
    if last == 0:
        return layer(0, x)
    first = layer(0, x)
    if len(first) == len(x):
        first = add(first, x)
    current = first
    for index in range(1, last):
        active = prelu(current, slope)
        support = [(1 - alpha) * a + alpha * b for a, b in zip(active, first, strict=True)]
        current = add(layer(index, support), active)
    return layer(last, prelu(current, slope))


def recursive_attention(inputs: list[Vector], history: Vector, present: Vector, bias, act):
    """Mix hops one by one; full vectors, as the paper has it."""
    scores = [act(dot(history, inputs[0]) + dot(present, inputs[0]) + bias)]
    for k in range(1, len(inputs)):
        mixture = weighted_sum(softmax(scores), inputs[:k])
        scores.append(act(dot(history, mixture) + dot(present, inputs[k]) + bias))
    return weighted_sum(softmax(scores), inputs)


def mixed_labels(labels: list[Vector], mixture: nn.Module) -> Vector:
    """Several label hops, drawn towards the last one, under recursive attention."""
    count = len(labels)
    if count == 1:
        return labels[0]
    drawn = []
    for k, label in enumerate(labels):
        share = math.cos(k * math.pi / (2 * count))
        drawn.append([(1 - share) * a + share * b for a, b in zip(label, labels[-1], strict=True)])
    history, present = mixture.vectors.tolist()
    return recursive_attention(drawn, history, present, mixture.bias.item(), leaky_relu)


def jk_mixed_labels(labels: list[Vector], mixture: nn.Module, act) -> Vector:
    """Several label hops of which all but the nearest are drawn to the last, under JK attention."""
    count = len(labels)
    drawn = [labels[0]]
    for k in range(1, count):
        share = math.cos(k * math.pi / (2 * count))
        pairs = zip(labels[k], labels[-1], strict=True)
        drawn.append([(1 - share) * a + share * b for a, b in pairs])
    joined = [value for label in drawn for value in label]
    summary = prelu(perceptron(joined, mixture.reference), 0.0)
    weight, bias = mixture.score.weight[0].tolist(), mixture.score.bias.item()
    scores = [act(dot(weight, summary + label) + bias) for label in drawn]
    return weighted_sum(softmax(scores), drawn)


def label_logits(labels: list[Vector], branch: nn.Module) -> Vector:
    return perceptron(mixed_labels(labels, branch.mixture), branch.perceptron)


def assert_rows_equal(encoder: nn.Module, batch: HopBatch, formula) -> None:
    """Hold every row of the encoder's result against the formula."""
    expected = []
    for row in range(len(batch)):
        labels = None if batch.labels is None else batch.labels[row].tolist()
        logits = formula(batch.hops[row].tolist())
        if labels is not None:
            logits = add(logits, label_logits(labels, encoder.label_branch))
        expected.append(logits)
    with torch.no_grad():
        result = encoder(batch)
    torch.testing.assert_close(
        result, torch.tensor(expected, dtype=torch.float64), rtol=1e-6, atol=1e-6
    )
