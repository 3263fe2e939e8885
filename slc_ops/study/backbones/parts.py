"""What several backbones are made of."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Sizes:
    """The sizes of a network; what a backbone has no use for is ignored by it."""

    width: int = 64
    heads: int = 4
    memory: int = 20
    length: int = 200
    dropout: float = 0.2


def interactions(skill: Tensor, label: Tensor, skills: int) -> Tensor:
    """The number of the interaction before each row: skill, or skill + S where it was right; 2S at first.

    >>> interactions(torch.tensor([[0, 1, 1]]), torch.tensor([[1, 0, 1]]), 3)
    tensor([[6, 3, 1]])
    """
    number = skill + skills * label
    return torch.cat([torch.full_like(number[:, :1], 2 * skills), number[:, :-1]], dim=1)


class FeedForward(nn.Module):
    """LN(W₂ ReLU(W₁ x) + x)."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(width, 2 * width), nn.ReLU(), nn.Dropout(dropout), nn.Linear(2 * width, width)
        )
        self.drop, self.norm = nn.Dropout(dropout), nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        """The same shape again."""
        y: Tensor = self.norm(self.drop(self.layers(x)) + x)
        return y
