from bagwise.model_files.model_file import (
    describe_training as describe_training,
    load_model as load_model,
    read_header as read_header,
    save_model as save_model,
    try_saving as try_saving,
)

__all__ = ["describe_training", "load_model", "read_header", "save_model", "try_saving"]
