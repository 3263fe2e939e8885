"""The paper's two controls as standing canaries of the gate, on real data.

``flight-delay`` must find stranded discrimination (a backbone without route parameters), ``movielens`` must
find none (backbones that model their items), and beside it, on the same films, some (a backbone that does
not). Each control trains its backbones, runs the whole refresh with them, registers nothing, and ends in a
:class:`~slc_ops.controls.verdict.ControlVerdict`.
"""
