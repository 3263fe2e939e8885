"""The embedded demo: Airflow and MLflow on SQLite in one directory."""
