"""The paper's two controls as regression tests of the gate, on real data.

``flight-delay`` must find stranded discrimination (a backbone without route parameters). ``movielens``
must find none (backbones that model their items) and, on the same films, some with a backbone that has no
item parameters. Each control trains its backbones, runs the complete refresh with them, registers nothing,
and returns a :class:`~slc_ops.controls.verdict.ControlVerdict`.
"""
