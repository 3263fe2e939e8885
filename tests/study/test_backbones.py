"""The networks use no future rows, use items only where they should, and ignore padding."""

import doctest
import importlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip(
    "torch", reason="PyTorch is not installed; scripts/install_study.sh adds the extra study"
)

from slc_ops.study.registry import BACKBONES  # noqa: E402
from slc_ops.study.trainer import Batch  # noqa: E402

SKILLS, ITEMS, LENGTH = 5, 11, 12
FOLDER = Path(__file__).parents[2] / "slc_ops" / "study" / "backbones"
every = pytest.mark.parametrize("name", sorted(BACKBONES))


def rows(seed: int = 0, length: int = LENGTH) -> Batch:
    made = torch.Generator().manual_seed(seed)
    draw = (torch.randint(0, most, (3, length), generator=made) for most in (SKILLS, ITEMS, 2, 4))
    return Batch(*draw, torch.ones(3, length, dtype=torch.bool))


def network(name: str) -> object:
    torch.manual_seed(1)
    made = BACKBONES[name].network(SKILLS, ITEMS)
    for each in made.parameters():  # difficulties start at 0, where they have no effect
        if not each.any():
            torch.nn.init.normal_(each)
    return made.eval()


@every
def test_a_row_uses_only_earlier_answers(name: str) -> None:
    model, given = network(name), rows()
    label = given.label.clone()
    label[:, 6] = 1 - label[:, 6]
    before, after = (model(each).detach() for each in (given, given._replace(label=label)))
    assert torch.allclose(before[:, :7], after[:, :7], atol=1e-6)
    assert (before[:, 7:] - after[:, 7:]).abs().max() > 1e-5


@every
def test_a_row_does_not_use_later_questions(name: str) -> None:
    model, given = network(name), rows()
    skill, item = given.skill.clone(), given.item.clone()
    skill[:, 8:], item[:, 8:] = 0, 0
    before, after = (model(each).detach() for each in (given, given._replace(skill=skill, item=item)))
    assert torch.allclose(before[:, :8], after[:, :8], atol=1e-6)


@every
def test_only_akt_and_lpkt_use_items(name: str) -> None:
    model, given = network(name), rows()
    before, after = (model(each) for each in (given, given._replace(item=(given.item + 1) % ITEMS)))
    seen = not torch.equal(before, after)
    assert seen == BACKBONES[name].sees_items == (name in ("akt", "lpkt"))


@every
def test_padding_at_the_end_changes_nothing(name: str) -> None:
    model, given = network(name), rows()
    short = Batch(*(each[:, :7] for each in given))
    assert torch.allclose(model(given)[:, :7], model(short), atol=1e-5)


@every
def test_a_single_row_has_a_finite_logit_and_gradient(name: str) -> None:
    model = network(name)
    score = model(rows(length=1))
    score.sum().backward()
    assert torch.isfinite(score).all()
    assert all(each.grad is None or torch.isfinite(each.grad).all() for each in model.parameters())


def test_the_memory_is_read_before_it_is_written() -> None:
    from slc_ops.study.backbones.dkvmn import memory_reads

    rng = np.random.default_rng(0)
    memory, weight = rng.normal(size=(2, 3, 4)), rng.dirichlet(np.ones(3), (2, 5))
    erase, add = rng.random((2, 5, 4)), rng.normal(size=(2, 5, 4))
    found = memory_reads(*(torch.tensor(each) for each in (memory, weight, erase, add))).numpy()
    for b in range(2):
        state = memory[b].copy()
        for t in range(5):
            assert np.allclose(found[b, t], weight[b, t] @ state)
            for i in range(3):
                w = weight[b, t, i]
                state[i] = state[i] * (1 - w * erase[b, t]) + w * add[b, t]


def test_akt_forgets_with_distance() -> None:
    from slc_ops.study.backbones.akt import DecayingAttention

    torch.manual_seed(0)
    sizes = replace(BACKBONES["akt"], width=8, heads=1, dropout=0.0)
    block = DecayingAttention(sizes, strict=True).eval()
    same = torch.ones(1, 10, 8)  # equal inputs: without a decay every earlier row has the same weight
    giving = torch.zeros(1, 10, 8, requires_grad=True)
    with torch.no_grad():
        block.key.weight.copy_(torch.eye(8))
        block.theta.fill_(1.0)
    block(same, giving)[0, 9].square().sum().backward()
    weight = giving.grad[0, :9].norm(dim=-1)
    assert (weight.diff() > 0).all()


@every
def test_each_backbone_is_one_small_file_with_equations_and_a_citation(name: str) -> None:
    text = (FOLDER / f"{name}.py").read_text()
    docstring = importlib.import_module(f"slc_ops.study.backbones.{name}").__doc__ or ""
    assert text.count("\n") <= 120
    assert "η_t" in docstring
    assert "(20" in docstring


def test_the_doctests_pass() -> None:
    found = doctest.testmod(importlib.import_module("slc_ops.study.backbones.parts"))
    assert found.attempted > 0
    assert found.failed == 0
