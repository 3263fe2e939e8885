"""The page "SLC" in Airflow's UI: the served versions of every deployment, the reasons, and their items.

It is server-rendered HTML from the ledger (versions, changes), the home directory (verdicts, reports, item
tables) and Airflow's metadata (runs, open approvals). The page is read-only.
"""
