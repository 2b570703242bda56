"""The training strategy of each kind of task."""

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
