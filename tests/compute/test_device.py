"""Devices: what torch cannot use is refused in one sentence."""

import pytest
import torch

from scr.compute import usable_device
from scr.errors import ConfigError


def test_the_cpu_is_always_there():
    assert usable_device("cpu") == torch.device("cpu")


@pytest.mark.parametrize("name", ["foo", "", "meta", "cuda:99", "privateuseone"])
def test_a_device_that_is_not_there_is_refused(name):
    with pytest.raises(ConfigError, match="expected a device that torch can use here"):
        usable_device(name)
