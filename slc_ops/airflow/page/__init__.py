"""The page "SLC" in Airflow's UI: what every deployment serves, why, and what its items look like.

Server-rendered HTML from three places: the ledger (versions, moves), the home directory (verdicts, reports,
item tables) and Airflow's metadata (runs, approvals that wait). Nothing here changes anything.
"""
