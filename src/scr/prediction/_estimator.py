"""What scikit-learn expects of an estimator, without importing it.

Each argument of the constructor is an attribute of the same name, stored as it was given, so that
`sklearn.base.clone` makes an equal estimator that is not fitted.
"""

from __future__ import annotations

import inspect
from dataclasses import fields
from typing import Any, ClassVar, Self

from scr.errors import ConfigError
from scr.training import TrainingConfig


class Estimator:
    """`get_params`, `set_params` and the tags of a classifier."""

    _estimator_type: ClassVar[str] = "classifier"
    _training_names: tuple[str, ...] = ()
    """Keyword settings that were given, beside the named arguments of the constructor."""

    def _store_training(self, training: dict[str, Any]) -> None:
        for name in training:
            if hasattr(type(self), name):
                expected = "a setting of the section `training`"
                raise ConfigError(name, training[name], expected, hint=f"`{name}` is a method")
        self.__dict__.update(training)
        self._training_names = tuple(training)

    def _training(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._training_names}

    @classmethod
    def _argument_names(cls) -> list[str]:
        parameters = list(inspect.signature(cls.__init__).parameters.values())[1:]
        return [each.name for each in parameters if each.kind is not each.VAR_KEYWORD]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Arguments of the constructor, the given settings of `training` included.

        Args:
            deep: For scikit-learn; no argument is an estimator itself.
        """
        named = {name: getattr(self, name) for name in self._argument_names()}
        return named | self._training()

    def set_params(self, **params: Any) -> Self:
        """Change arguments of the constructor; the next `fit` uses them.

        Args:
            **params: As of the constructor, settings of `training` included.

        Returns:
            Itself.
        """
        named = self._argument_names()
        settings = [each.name for each in fields(TrainingConfig)]
        for name, value in params.items():
            if name not in named and name not in settings:
                known = ", ".join([*named, *settings])
                raise ConfigError(name, value, f"one of the settings {known}")
        changed = {**self.get_params(), **params}
        type(self)(**changed)  # what the constructor refuses is refused here, before any change
        self.__dict__.update(params)
        self._training_names = tuple(name for name in changed if name not in named)
        return self

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags

        return Tags(
            estimator_type=self._estimator_type,
            target_tags=TargetTags(required=False),
            classifier_tags=ClassifierTags(),
            input_tags=InputTags(two_d_array=False),
        )
