"""The positive control, monthly."""

from slc_ops.airflow.controls import control_dag

DOC = """\
### Positive control: flight delays

Backbones that know carrier, time and distance, but not the route, leave discrimination stranded: `slc` and
`slc_eb` must gain AUC over Platt with the whole 95 % interval (by day) above zero, Platt itself must leave
the AUC as it is, and where the season turns nothing may be promoted. Embedded data: New York's departures of
2013. The full protocol takes the BTS files of 2018 and 2019 from a folder below `SLC_OPS_HOME/data`.

Nothing is registered. When this turns red, look at the last change of correction, evidence or gate first.
"""

control_flight_delay = control_dag(
    "flight-delay", title="Control: flight delays (positive)", backbones=("bbA", "bbB"), doc=DOC
)
