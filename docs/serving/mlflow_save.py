"""Keep a model file as an MLflow model, open it again and score a table."""

import mlflow
import pandas as pd

mlflow.pyfunc.save_model(  # mlflow.pyfunc.log_model takes the same, and name= instead of path=
    path="aerosol",
    python_model="mlflow_model.py",
    artifacts={"model": "model.bagwise"},
    model_config={"bag": "bag"},
    pip_requirements=["bagwise", "pandas"],
)
scored = mlflow.pyfunc.load_model("aerosol").predict(pd.read_csv("new_pixels.csv"))
print(scored.head())
