"""Where torch computes: a name such as `cpu` or `cuda:1`, checked before anything is written."""

from __future__ import annotations

import torch

from scr.errors import ConfigError


def usable_device(name: str) -> torch.device:
    """The device of a name; a `ConfigError` if torch has none or cannot compute on it here."""
    try:
        device = torch.device(name)
        # Only an attempt tells: drivers, builds of torch and numbers of devices all have a say.
        if device.type != "cpu":
            torch.zeros(1, device=device).cpu()
    except (RuntimeError, AssertionError, ImportError) as error:
        # The first sentence of what torch says; the rest is for its developers.
        reason = (str(error).splitlines() or [""])[0].split(". ")[0]
        expected = "a device that torch can use here, such as `cpu`"
        raise ConfigError("device", name, expected, hint=f"torch says: {reason}") from None
    return device
