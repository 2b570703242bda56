"""The settings of a model as scikit-learn expects them: stored by the constructor, reached by name."""

from __future__ import annotations

import dataclasses
from typing import Any

from sklearn.base import BaseEstimator

from gdpnet.config import (
    Config,
    FeaturesSettings,
    InferenceSettings,
    PolicySettings,
    PPOSettings,
    ReaderSettings,
    RepresentationSettings,
    RewardSettings,
    TaskSettings,
    TrainingSettings,
    task_config,
)
from gdpnet.errors import ConfigError, nearest
from gdpnet.representation.tasks import Task

SECTIONS = tuple(item.name for item in dataclasses.fields(Config))


class Estimator(BaseEstimator):
    """Sections of settings, the seed and the device; a section left out has its defaults."""

    def __init__(
        self,
        *,
        features: FeaturesSettings | None = None,
        policy: PolicySettings | None = None,
        reward: RewardSettings | None = None,
        ppo: PPOSettings | None = None,
        representation: RepresentationSettings | None = None,
        training: TrainingSettings | None = None,
        reader: ReaderSettings | None = None,
        inference: InferenceSettings | None = None,
        task: Task | TaskSettings | str | None = None,
        seed: int = 0,
        device: str = "auto",
    ) -> None:
        self.features = features
        self.policy = policy
        self.reward = reward
        self.ppo = ppo
        self.representation = representation
        self.training = training
        self.reader = reader
        self.inference = inference
        self.task = task
        self.seed = seed
        self.device = device

    @classmethod
    def from_config(cls, config: Config, *, seed: int = 0, device: str = "auto") -> Any:
        """Make a model from a whole configuration."""
        return cls(**{name: getattr(config, name) for name in SECTIONS}, seed=seed, device=device)

    @property
    def config(self) -> Config:
        """Return the settings of all sections."""
        task = TaskSettings(kind=self.task) if isinstance(self.task, str) else self.task
        task = task if isinstance(task, TaskSettings) else TaskSettings()
        given = {name: getattr(self, name) for name in SECTIONS if name != "task"}
        given = {name: value for name, value in given.items() if value is not None}
        return dataclasses.replace(task_config(task.kind), **given, task=task)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor's arguments and, if deep, every setting as ``section__key``."""
        params: dict[str, Any] = super().get_params(deep=False)
        if deep:
            for section, values in self.config.to_dict().items():
                params |= {f"{section}__{key}": value for key, value in values.items()}
        return params

    def set_params(self, **params: Any) -> Any:
        """Set constructor arguments, or single settings as ``section__key``."""
        for name, value in params.items():
            section, separator, key = name.partition("__")
            if separator:
                changed = self.config.with_values({section: {key: value}})
                setattr(self, section, getattr(changed, section))
            elif name in (*SECTIONS, "seed", "device"):
                setattr(self, name, value)
            else:
                raise ConfigError(f"GDPNet has no parameter '{name}'{nearest(name, self.get_params())}")
        return self
