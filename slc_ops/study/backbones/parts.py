"""Parts that several backbones share."""

import torch
from torch import Tensor, nn


def interactions(skill: Tensor, label: Tensor, skills: int) -> Tensor:
    """Return the code of the previous interaction: skill, or skill + S if correct; 2S for the first row.

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
        """Apply the layers; the shape stays the same."""
        y: Tensor = self.norm(self.drop(self.layers(x)) + x)
        return y
