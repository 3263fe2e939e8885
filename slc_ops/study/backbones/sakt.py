"""Self-attentive knowledge tracing: attention from the current exercise to past interactions.

    m_t = E[s_t, y_t] + P_t                           past interactions with their position in the window
    q_t = W_Q C[s_t],  k_τ = W_K m_τ,  v_τ = W_V m_τ
    a_t = Σ_{τ<t} softmax_τ(q_t · k_τ / √d) v_τ       in several heads
    h_t = LN(a_t + q_t),   f_t = LN(FFN(h_t) + h_t),   η_t = w · f_t + b

The paper uses "exercise" for skill: there are no item parameters.

Pandey, Karypis: A self-attentive model for knowledge tracing. EDM (2019).
"""

from typing import Any

from torch import Tensor, arange, nn

from slc_ops.study.backbones.parts import FeedForward, interactions
from slc_ops.study.registry import Backbone


class SAKT(nn.Module):
    """One block of attention from the current skill to past interactions."""

    def __init__(self, skills: int, items: int, sizes: Backbone) -> None:
        super().__init__()
        width = sizes.width
        self.heads = sizes.heads
        self.answered = nn.Embedding(2 * skills + 1, width)
        self.position = nn.Embedding(sizes.length, width)
        self.asked = nn.Embedding(skills, width)
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.norm = nn.LayerNorm(width)
        self.feed = FeedForward(width, sizes.dropout)
        self.drop = nn.Dropout(sizes.dropout)
        self.score = nn.Linear(width, 1)

    def forward(self, rows: Any) -> Tensor:
        """Return the logit of every row from the rows before it; position 0 is "no earlier answer"."""
        before = interactions(rows.skill, rows.label, self.asked.num_embeddings)
        place = self.position(arange(before.shape[1], device=before.device))
        past, asked = self.answered(before) + place, self.asked(rows.skill)
        q, k, v = self._split(self.query(asked)), self._split(self.key(past)), self._split(self.value(past))
        # Row t of the shifted `past` is interaction t − 1, so causal attention excludes row t itself.
        found = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        found = self.out(found.transpose(1, 2).flatten(2))
        known = self.feed(self.norm(self.drop(found) + asked))
        logits: Tensor = self.score(known).squeeze(-1)
        return logits

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)
