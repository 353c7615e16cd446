"""Log a model file as an MLflow model, open it again and score a table."""

import mlflow
import pandas as pd

with mlflow.start_run():
    logged = mlflow.pyfunc.log_model(
        name="aerosol",
        python_model="mlflow_model.py",
        artifacts={"model": "model.bagwise"},
        model_config={"bag": "bag"},
        pip_requirements=["bagwise", "pandas"],
    )
scored = mlflow.pyfunc.load_model(logged.model_uri).predict(pd.read_csv("new_pixels.csv"))
print(scored.head())
