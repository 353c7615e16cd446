"""``python -m bagwise`` is ``bagwise``."""

from bagwise.cli import run

if __name__ == "__main__":
    run()
