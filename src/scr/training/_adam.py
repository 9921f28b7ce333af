"""Adam on the CPU without `torch.optim`, step for step and bit for bit the same.

The first optimizer of `torch.optim` imports torch's compiler, which takes longer than training on a
small graph. The arithmetic is one operator of torch, so only its arguments are prepared here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

BETAS, EPSILON = (0.9, 0.999), 1e-8
"""Those of torch and of Kingma and Ba 2015, arXiv:1412.6980."""


class Adam:
    """`torch.optim.Adam(fused=True)` for parameters on the CPU; its state has the same names."""

    def __init__(
        self, parameters: Iterable[Tensor], *, learning_rate: float, weight_decay: float
    ) -> None:
        self.parameters = list(parameters)
        self.param_groups: list[dict[str, Any]] = [
            {"lr": learning_rate, "weight_decay": weight_decay}
        ]
        self.state: dict[int, dict[str, Tensor]] = {}
        """By the position of the parameter; those that never had a gradient have none."""

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop all gradients, or set them to 0."""
        for parameter in self.parameters:
            if set_to_none:
                parameter.grad = None
            elif parameter.grad is not None:
                parameter.grad.zero_()

    @torch.no_grad()
    def step(self) -> None:
        """Update every parameter that has a gradient."""
        by_type: dict[torch.dtype, list[int]] = {}
        for position, parameter in enumerate(self.parameters):
            if parameter.grad is not None:
                if position not in self.state:
                    self.state[position] = _first_state(parameter)
                by_type.setdefault(parameter.dtype, []).append(position)
        group = self.param_groups[0]
        for positions in by_type.values():
            parameters = [self.parameters[position] for position in positions]
            states = [self.state[position] for position in positions]
            steps = [state["step"] for state in states]
            torch._foreach_add_(steps, 1)
            torch._fused_adam_(
                parameters,
                [parameter.grad for parameter in parameters],  # type: ignore[misc]
                [state["exp_avg"] for state in states],
                [state["exp_avg_sq"] for state in states],
                [],
                steps,
                amsgrad=False,
                lr=group["lr"],
                beta1=BETAS[0],
                beta2=BETAS[1],
                weight_decay=group["weight_decay"],
                eps=EPSILON,
                maximize=False,
                grad_scale=None,
                found_inf=None,
            )

    def state_dict(self) -> dict[str, Any]:
        """As of `torch.optim.Adam`."""
        return {"state": self.state, "param_groups": self.param_groups}

    def load_state_dict(self, stored: dict[str, Any]) -> None:
        """Take copies of the moments and steps of another one."""
        for position, state in stored["state"].items():
            for name, value in state.items():
                if name != "step" and value.shape != self.parameters[position].shape:
                    raise ValueError(f"`{name}` has the shape {tuple(value.shape)}")
        self.state = {
            position: {
                name: value.clone().to(
                    torch.float32 if name == "step" else self.parameters[position].dtype
                )
                for name, value in state.items()
            }
            for position, state in stored["state"].items()
        }
        self.param_groups = [dict(group) for group in stored["param_groups"]]


Optimizer = Adam | torch.optim.Optimizer


def make_adam(
    parameters: Iterable[Tensor], *, learning_rate: float, weight_decay: float
) -> Optimizer:
    """Adam that takes one pass over all parameters instead of a dozen, wherever they are."""
    listed = list(parameters)
    if all(parameter.device.type == "cpu" for parameter in listed):
        return Adam(listed, learning_rate=learning_rate, weight_decay=weight_decay)
    return torch.optim.Adam(listed, lr=learning_rate, weight_decay=weight_decay, fused=True)


def _first_state(parameter: Tensor) -> dict[str, Tensor]:
    return {
        "step": torch.zeros(()),
        "exp_avg": torch.zeros_like(parameter, memory_format=torch.preserve_format),
        "exp_avg_sq": torch.zeros_like(parameter, memory_format=torch.preserve_format),
    }
