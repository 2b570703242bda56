"""The training strategy of each kind of task."""

from gdpnet.errors import ConfigError
from gdpnet.training.link_task import LinksTask
from gdpnet.training.strategy import TrainingTask
from gdpnet.training.tasks import LabelTask
from gdpnet.training.unsupervised import ClustersTask

TASKS: dict[str, type[TrainingTask]] = {
    "classification": LabelTask,
    "multi-label": LabelTask,
    "regression": LabelTask,
    "links": LinksTask,
    "clusters": ClustersTask,
}


def check_ranks(ranks: int, kind: str) -> None:
    """Refuse a kind of task that several processes cannot learn together; a task of the user's own has no kind."""
    if ranks > 1 and kind in ("links", "clusters", ""):
        what = f"the task {kind}" if kind else "a task of your own"
        raise ConfigError(f"{what} must be trained in one process, found {ranks}: start it without torchrun")
