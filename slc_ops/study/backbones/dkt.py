"""Deep knowledge tracing: a recurrent network over skills and answers.

    x_t = E[s_t, y_t]                                 an interaction: skill and answer
    h_t = LSTM(x_1, …, x_{t−1})                       the student's state before the answer
    η_t = w_{s_t} · h_t + b_{s_t}                     the output layer's row for the skill

There are no item parameters: two items of one skill get the same logit.

Piech, Bassen, Huang, Ganguli, Sahami, Guibas, Sohl-Dickstein: Deep knowledge tracing. NeurIPS 28 (2015).
"""

from typing import Any

from torch import Tensor, nn

from slc_ops.study.backbones.parts import interactions
from slc_ops.study.registry import Backbone


class DKT(nn.Module):
    """The paper's network, with an embedding in place of one-hot inputs."""

    def __init__(self, skills: int, items: int, sizes: Backbone) -> None:
        super().__init__()
        self.answered = nn.Embedding(2 * skills + 1, sizes.width)  # the last code: no earlier answer
        self.recurrent = nn.LSTM(sizes.width, sizes.width, batch_first=True)
        self.drop = nn.Dropout(sizes.dropout)
        self.weight = nn.Embedding(skills, sizes.width)
        self.bias = nn.Embedding(skills, 1)
        nn.init.normal_(self.weight.weight, std=sizes.width**-0.5)
        nn.init.zeros_(self.bias.weight)

    def forward(self, rows: Any) -> Tensor:
        """Return the logit of every row from the rows before it."""
        before = interactions(rows.skill, rows.label, self.weight.num_embeddings)
        known, _ = self.recurrent(self.answered(before))
        score = (self.drop(known) * self.weight(rows.skill)).sum(-1)
        logits: Tensor = score + self.bias(rows.skill).squeeze(-1)
        return logits
