from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from scr.encoders.layers._subset_mixture import SubsetMixture, mix_subsets


def _drawn(rows, subsets, hops, features, dtype=torch.float32):
    generator = torch.Generator().manual_seed(rows + 10 * subsets + 100 * hops)
    matrices = 1 + subsets * hops
    return tuple(
        torch.randn(shape, generator=generator, dtype=dtype)
        for shape in ((rows, matrices, features), (features,), (hops, subsets, features))
    )


def _by_hand(hops, first, weight):
    """The formula, one number at a time."""
    hops, first, weight = (part.double().numpy() for part in (hops, first, weight))
    count, subsets, _ = weight.shape
    mixed = np.zeros((len(hops), count + 1, hops.shape[2]))
    mixed[:, 0] = first * hops[:, 0]
    for k in range(1, count + 1):
        for s in range(subsets):
            mixed[:, k] += weight[k - 1, s] * hops[:, s * count + k]
    return mixed


@given(
    rows=st.sampled_from([1, 3, 700]),
    subsets=st.integers(1, 5),
    hops=st.integers(0, 4),
    features=st.integers(1, 9),
)
def test_every_hop_is_the_weighted_sum_over_the_subsets(rows, subsets, hops, features):
    drawn = _drawn(rows, subsets, hops, features)
    mixed = mix_subsets(*drawn)
    assert mixed.shape == (rows, hops + 1, features)
    np.testing.assert_allclose(mixed.numpy(), _by_hand(*drawn), rtol=1e-4, atol=1e-5)


def test_the_gradient_is_that_of_finite_differences():
    drawn = [part.requires_grad_() for part in _drawn(4, 3, 2, 5, torch.float64)]
    assert torch.autograd.gradcheck(mix_subsets, drawn)


def test_the_compiled_gradient_is_that_of_torch():
    single = [part.requires_grad_() for part in _drawn(900, 3, 2, 7)]
    double = [part.detach().double().requires_grad_() for part in single]
    upstream = torch.randn(900, 3, 7, generator=torch.Generator().manual_seed(5))
    (mix_subsets(*single) * upstream).sum().backward()
    (mix_subsets(*double) * upstream.double()).sum().backward()
    for ours, theirs in zip(single, double, strict=True):
        torch.testing.assert_close(ours.grad.double(), theirs.grad, rtol=1e-4, atol=1e-4)


def test_results_do_not_depend_on_the_number_of_threads():
    def run(threads):
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        try:
            hops, first, weight = _drawn(3000, 4, 3, 16)
            weight.requires_grad_()
            mixed = mix_subsets(hops, first, weight)
            mixed.square().sum().backward()
            return mixed.detach(), weight.grad
        finally:
            torch.set_num_threads(before)

    for one, two in zip(run(1), run(3), strict=True):
        assert torch.equal(one, two)


def test_it_starts_as_the_mean_of_the_subsets():
    hops, _, _ = _drawn(50, 4, 2, 6)
    mixed = SubsetMixture(4, 2, 6)(hops)
    torch.testing.assert_close(mixed[:, 0], hops[:, 0])
    torch.testing.assert_close(mixed[:, 1:], hops[:, 1:].view(50, 4, 2, 6).mean(1))


def test_xavier_starts_within_the_bounds_of_its_rule():
    torch.manual_seed(0)
    mixture = SubsetMixture(8, 3, 64, "xavier")
    bound = math.sqrt(6 / (8 + 64))
    assert mixture.weight.abs().max() <= bound
    assert mixture.weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.1)
    # Hop 0 is the same in all subsets: their eight weights add up.
    assert mixture.first.std().item() == pytest.approx(math.sqrt(8) * bound / math.sqrt(3), rel=0.3)


def test_subsets_mixed_before_and_the_others_make_the_same_mixture():
    hops, _, _ = _drawn(60, 4, 2, 6)
    torch.manual_seed(1)
    mixture = SubsetMixture(4, 2, 6, "xavier")
    whole = mixture(hops)
    rest = mixture.sum_of(hops, [0, 2])
    chosen = hops[:, 1:].view(60, 4, 2, 6)[:, [1, 3]].flatten(1, 2)
    mixture.chosen = (1, 3)
    torch.testing.assert_close(mixture(torch.cat([hops[:, :1], chosen, rest], 1)), whole)


def test_hops_of_another_number_of_subsets_are_refused():
    with pytest.raises(ValueError, match="There are 6 hops per row; expected 7"):
        SubsetMixture(3, 2, 4)(torch.zeros(5, 6, 4))
