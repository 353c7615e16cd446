"""The live line: what it says, and what is left of it in a narrow terminal."""

import io

import pytest
from rich.console import Console

from bagwise.evaluation.evaluation import Display, Step

STEP = Step(12, 50, 3, 150.0, "instance-kme:notebook", 0.12345, None)


def line(width, step=STEP):
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)
    display = Display(console=console, metric="rmse")
    display(step)
    with console.capture() as caught:
        console.print(display.progress.get_renderable())
    (found,) = caught.get().splitlines()
    assert len(found.rstrip()) <= width
    return found


@pytest.mark.parametrize("width", [24, 40, 66, 80, 120])
def test_cells_done_are_always_there(width):
    assert "12/50 cells, 3 failed" in line(width)


def test_what_fits_the_width():
    assert "best so far: instance-kme:notebook, rmse 0.1235" in line(140) and "2.5 min left" in line(80)
    assert "━" in line(80) and "━" not in line(40)
    assert line(40).rstrip().endswith("…")


def test_nothing_is_known_yet():
    found = line(80, Step(0, 5, 0, None, None, None, None))
    assert "0/5 cells" in found and "left" not in found and "best" not in found and "failed" not in found


def test_the_time_passed_goes_on_between_two_cells():
    display = Display(console=Console(file=io.StringIO(), width=80, force_terminal=True))
    display(STEP)
    (task,) = display.progress.tasks
    task.start_time -= 300.0
    assert "3 failed, 5.0 min, 2.5 min left" in str(display.progress.columns[-1].render(task))
