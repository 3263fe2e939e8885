"""Learning process-consistent knowledge tracing: gains and losses of every skill, step by step.

    l_t  = W₁ [e_{i_t}, y_t] + b₁                                        what happened: item and answer
    lg_t = tanh(W₂ [l_{t−1}, g_t, l_t, h̃_{t−1}] + b₂)                    learning gain
    Γˡ_t = σ(W₃ [l_{t−1}, g_t, l_t, h̃_{t−1}] + b₃)                       how much of it is absorbed
    LG_t = Γˡ_t ⊙ (lg_t + 1) / 2,         L̃G_t = q_{s_t} LG_t            for the skills of the item
    Γᶠ_t = σ(W₄ [h_{t−1}, LG_t, g_t] + b₄)                               what is not forgotten, per skill
    h_t  = L̃G_t + Γᶠ_t ⊙ h_{t−1},         h̃_t = q_{s_{t+1}} · h_t
    η_t  = W₅ [e_{i_t}, h̃_{t−1}] + b₅, a hidden layer and a score

h is a matrix with a row per skill. g_t is the time since the previous interaction, in classes of doubling
length; a log with counts as times has one class. The authors also use the time taken for an answer, which the
log's contract lacks. q is 1 at the item's skill and a small γ elsewhere.

Shen, Liu, Chen, Huang, Huang, Yin, Su, Wang: Learning process-consistent knowledge tracing. KDD (2021),
1452–1460.
"""

from typing import Any

import torch
from torch import Tensor, nn

from slc_ops.study.registry import Backbone

ELSEWHERE = 0.03
"""γ: the share of a gain for other skills, as in the authors' program."""
GAPS = 24
"""Number of classes of the time between two interactions, up to 2²³ minutes."""


class LPKT(nn.Module):
    """The paper's network without the time taken for an answer."""

    def __init__(self, skills: int, items: int, sizes: Backbone) -> None:
        super().__init__()
        width, self.skills = sizes.width, skills
        self.item, self.gap = nn.Embedding(items, width), nn.Embedding(GAPS, width)
        nn.init.normal_(self.item.weight, std=0.1)
        nn.init.normal_(self.gap.weight, std=0.1)
        self.happened = nn.Linear(width + 1, width)
        self.gain, self.gain_state = nn.Linear(3 * width, 2 * width), nn.Linear(width, 2 * width, bias=False)
        self.keep, self.keep_state = nn.Linear(2 * width, width), nn.Linear(width, width, bias=False)
        self.start = nn.Parameter(torch.randn(skills, width) * 0.1)
        self.drop = nn.Dropout(sizes.dropout)
        self.score = nn.Sequential(nn.Linear(2 * width, width), nn.Tanh(), nn.Linear(width, 1))

    def forward(self, rows: Any) -> Tensor:
        """Return the logit of every row from the rows before it, its skill and its item."""
        item, gap = self.item(rows.item), self.gap(rows.gap)
        happened = self.happened(torch.cat([item, rows.label.unsqueeze(-1).to(item.dtype)], dim=-1))
        earlier = torch.cat([torch.zeros_like(happened[:, :1]), happened[:, :-1]], dim=1)
        gains = self.gain(torch.cat([earlier, gap, happened], dim=-1))  # all terms but the state, at once
        q = torch.full((*rows.skill.shape, self.skills), ELSEWHERE, device=item.device)
        q = q.scatter(-1, rows.skill.unsqueeze(-1), 1.0)
        state = self.start.expand(len(item), -1, -1)
        known = []
        keep_gap = gap @ self.keep.weight[:, item.shape[-1] :].T + self.keep.bias
        keep_gain = self.keep.weight[:, : item.shape[-1]]
        for q_t, gain_t, gap_t in zip(q.unbind(1), gains.unbind(1), keep_gap.unbind(1), strict=True):
            before = torch.bmm(q_t.unsqueeze(1), state).squeeze(1)
            known.append(before)
            learned, absorbed = (gain_t + self.gain_state(before)).chunk(2, dim=-1)
            gain = torch.sigmoid(absorbed) * (torch.tanh(learned) + 1) / 2
            forget = gap_t + gain @ keep_gain.T
            kept = torch.sigmoid(self.keep_state(state) + forget.unsqueeze(1))
            state = q_t.unsqueeze(-1) * self.drop(gain).unsqueeze(1) + kept * state
        logits: Tensor = self.score(torch.cat([item, torch.stack(known, dim=1)], dim=-1)).squeeze(-1)
        return logits
