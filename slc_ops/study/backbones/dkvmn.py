"""Dynamic key-value memory network: a value per latent concept, read and written by attention.

    w_t = softmax(M^k · k[s_t])                       weights of the skill's concepts (N static keys)
    r_t = Σ_i w_t(i) M_t(i)                           the student's state of these concepts
    η_t = w · tanh(W_f [r_t, k[s_t]] + b_f) + b
    e_t = σ(W_e v_t + b_e),  a_t = tanh(W_a v_t + b_a),   v_t = E[s_t, y_t]
    M_{t+1}(i) = M_t(i) ⊙ (1 − w_t(i) e_t) + w_t(i) a_t       erase, then add

All lines but the last are computed for all rows at once. There are no item parameters.

Zhang, Shi, King, Yeung: Dynamic key-value memory networks for knowledge tracing. WWW (2017), 765–774.
"""

from typing import Any

import torch
from torch import Tensor, nn

from slc_ops.study.registry import Backbone


class DKVMN(nn.Module):
    """The paper's network."""

    def __init__(self, skills: int, items: int, sizes: Backbone) -> None:
        super().__init__()
        width, memory = sizes.width, sizes.memory
        self.skills = skills
        self.key = nn.Embedding(skills, width)
        self.answered = nn.Embedding(2 * skills, width)
        self.concepts = nn.Parameter(torch.randn(memory, width) * width**-0.5)
        self.start = nn.Parameter(torch.randn(memory, width) * 0.1)
        self.erase, self.add = nn.Linear(width, width), nn.Linear(width, width)
        self.join = nn.Linear(2 * width, width)
        self.drop = nn.Dropout(sizes.dropout)
        self.score = nn.Linear(width, 1)

    def forward(self, rows: Any) -> Tensor:
        """Return the logit of every row from the rows before it."""
        key = self.key(rows.skill)
        written = self.answered(rows.skill + self.skills * rows.label)
        weight = torch.softmax(key @ self.concepts.T, dim=-1)  # rows × time × concepts
        erase, add = torch.sigmoid(self.erase(written)), torch.tanh(self.add(written))
        read = memory_reads(self.start.expand(len(key), -1, -1), weight, erase, add)
        found = torch.tanh(self.join(torch.cat([read, key], dim=-1)))
        logits: Tensor = self.score(self.drop(found)).squeeze(-1)
        return logits


def memory_reads(memory: Tensor, weight: Tensor, erase: Tensor, add: Tensor) -> Tensor:
    """Return the memory read before each write, step by step in time."""
    reads = []
    for w, e, a in zip(weight.unbind(1), erase.unbind(1), add.unbind(1), strict=True):
        reads.append(torch.bmm(w.unsqueeze(1), memory).squeeze(1))
        w_column = w.unsqueeze(-1)
        memory = memory + w_column * (a.unsqueeze(1) - e.unsqueeze(1) * memory)
    return torch.stack(reads, dim=1)
