"""An MLflow model from code around a model file: a long table in, a row per bag out."""

import mlflow
import pandas as pd

import bagwise as bw


class BagModel(mlflow.pyfunc.PythonModel):
    def load_context(self, context):
        self.model = bw.load_model(context.artifacts["model"])
        self.bag = (context.model_config or {}).get("bag", "bag")

    def predict(self, context, model_input, params=None):
        bags, _ = bw.load(model_input, bag=self.bag, features=list(self.model.feature_names_in_))
        rows = pd.DataFrame({self.bag: bags.ids, "prediction": self.model.predict(bags)})
        if hasattr(self.model, "predict_interval"):
            rows[["lower", "upper"]] = self.model.predict_interval(bags)
        return rows


mlflow.models.set_model(BagModel())
