"""Context-aware attentive knowledge tracing: attention with decay, and item difficulties.

    x_t = c_s + μ_i d_s,    y_t = e_{s,y} + μ_i f_{s,y}       Rasch embeddings: μ_i is the item's difficulty
    x̂ = encoder(x),  ŷ = encoder(y)                           self-attention up to and with the row
    h_t = retriever(q = x̂_t, k = x̂_τ, v = ŷ_τ for τ < t)      strictly earlier rows
    α_{t,τ} = softmax_τ( exp(−θ δ(t,τ)) · q_t·k_τ / √d ),  θ > 0 per head
    δ(t,τ)² = |t − τ| · Σ_{t'>τ} γ_{t,t'}                     distance: rows between, weighted by relevance γ
    η_t = MLP([h_t, x_t])

γ is the softmax of q·k without the decay; no gradient flows through it. δ is the square root, as in the
authors' program. Σ μ_i² is penalised.

Ghosh, Heffernan, Lan: Context-aware attentive knowledge tracing. KDD (2020), 2330–2340.
"""

from typing import Any

import torch
from torch import Tensor, nn

from slc_ops.study.backbones.parts import FeedForward
from slc_ops.study.registry import Backbone


class DecayingAttention(nn.Module):
    """An attention block whose weights decrease with the distance in time, then a feed-forward layer."""

    def __init__(self, sizes: Backbone, *, strict: bool) -> None:
        super().__init__()
        width, self.heads, self.strict = sizes.width, sizes.heads, strict
        self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(3))  # keys are queries, too
        self.theta = nn.Parameter(torch.zeros(sizes.heads, 1, 1))
        self.norm, self.drop = nn.LayerNorm(width), nn.Dropout(sizes.dropout)
        self.feed = FeedForward(width, sizes.dropout)

    def forward(self, asking: Tensor, giving: Tensor) -> Tensor:
        """Compare rows of ``asking`` with each other; return the weighted rows of ``giving``."""
        k, v = self._split(self.key(asking)), self._split(self.value(giving))
        length = k.shape[2]
        seen = torch.ones(length, length, dtype=torch.bool, device=k.device).tril(-1 if self.strict else 0)
        score = k @ k.transpose(-2, -1) * k.shape[-1] ** -0.5
        with torch.no_grad():
            relevance = torch.softmax(score.masked_fill(~seen, -1e9), dim=-1)
            later = 1 - relevance.cumsum_(-1)
            step = torch.arange(length, device=k.device)
            distance = later.mul_((step[:, None] - step).abs()).clamp_(min=0).sqrt_()
        decay = torch.exp(-nn.functional.softplus(self.theta) * distance)
        weight = torch.softmax((score * decay).masked_fill(~seen, -1e9), dim=-1)
        if self.strict:  # the first row has no earlier row
            weight = weight * seen.any(-1, keepdim=True)
        found = (self.drop(weight) @ v).transpose(1, 2).flatten(2)
        y: Tensor = self.feed(self.norm(asking + self.drop(self.out(found))))
        return y

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)


class AKT(nn.Module):
    """Two encoders and a retriever, one block each."""

    def __init__(self, skills: int, items: int, sizes: Backbone) -> None:
        super().__init__()
        width, self.skills = sizes.width, skills
        self.skill, self.skill_variation = nn.Embedding(skills, width), nn.Embedding(skills, width)
        self.answered, self.answered_variation = (nn.Embedding(2 * skills, width) for _ in range(2))
        self.difficulty = nn.Embedding(items, 1)
        nn.init.zeros_(self.difficulty.weight)
        for each in (self.skill, self.answered, self.skill_variation, self.answered_variation):
            nn.init.normal_(each.weight, std=width**-0.5)
        self.questions = DecayingAttention(sizes, strict=False)
        self.knowledge = DecayingAttention(sizes, strict=False)
        self.retriever = DecayingAttention(sizes, strict=True)
        self.score = nn.Sequential(
            nn.Linear(2 * width, 2 * width), nn.ReLU(), nn.Dropout(sizes.dropout), nn.Linear(2 * width, 1)
        )

    def forward(self, rows: Any) -> Tensor:
        """Return the logit of every row from the rows before it, its skill and its item."""
        answered, difficulty = rows.skill + self.skills * rows.label, self.difficulty(rows.item)
        x = self.skill(rows.skill) + difficulty * self.skill_variation(rows.skill)
        y = self.answered(answered) + difficulty * self.answered_variation(answered)
        asked = self.questions(x, x)
        known = self.retriever(asked, self.knowledge(y, y))
        logits: Tensor = self.score(torch.cat([known, x], dim=-1)).squeeze(-1)
        return logits

    def penalty(self) -> Tensor:
        """Return the sum of squared difficulties times 1e-5, as in the authors' program."""
        return 1e-5 * self.difficulty.weight.square().sum()
