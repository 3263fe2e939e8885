"""Serve the champion's golden vectors through MLflow and print both as JSON."""

import json
import sys
from pathlib import Path

import mlflow
import pandas as pd

uri = f"models:/slc-{sys.argv[1]}@champion"
golden = json.loads(
    Path(mlflow.artifacts.download_artifacts(f"{uri}/artifacts/parameters/golden.json")).read_text()
)
vectors = golden["vectors"]
frame = pd.DataFrame(
    {"item_id": [each.get("item_id") for each in vectors], "logit": [each["logit"] for each in vectors]}
)
served = mlflow.pyfunc.load_model(uri).predict(frame)["p_corrected"]
print(json.dumps({"golden": [each["probability"] for each in vectors], "served": list(served)}))
