"""A recipe: every setting of a run, in sections, from a preset, a TOML file and single overrides.

Later layers win: preset < recipe file < `--set` or keywords. The result is recorded whole in
`run.json`, so that a run can be repeated without knowing which layer a value came from.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, TypeVar

from scr.config import Settings, build, did_you_mean
from scr.consistency import (
    REGULARIZERS,
    ConsistencyConfig,
    consistency_config,
    defaults_of,
    drops_nodes,
)
from scr.encoders import PREFIX, EncoderConfig
from scr.errors import ConfigError, GraphError, PairError
from scr.features import FeatureConfig
from scr.networks import ENCODERS, encoder_class
from scr.propagation import PropagationConfig
from scr.training._config import PostprocessConfig, StagesConfig, TrainingConfig
from scr.training.presets import GraphFacts, choose_preset, read_preset
from scr.training.presets._auto import Choice

AUTO_ENCODER, DEFAULT_ENCODER, DEFAULT_REGULARIZER = "auto", "ssgc", "scr"
SECTIONS = ("data", "propagation", "encoder", "consistency", "training", "stages", "postprocess")

Tables = Mapping[str, Any]
Section = TypeVar("Section")


YOUNGER: dict[str, dict[str, Any]] = {
    "training": {"metric": "accuracy", "refit": False, "inductive": False},
    "consistency": {"noise": "dropout", "top_nodes": 32},
}
"""Settings that are written down only if they differ from this: runs from before there was a choice
are the same runs."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """All settings of one run."""

    encoder: str
    encoder_config: EncoderConfig
    regularizer: str
    data: FeatureConfig
    propagation: PropagationConfig
    consistency: ConsistencyConfig | None
    training: TrainingConfig
    stages: StagesConfig = field(default_factory=StagesConfig)
    postprocess: PostprocessConfig = field(default_factory=PostprocessConfig)
    preset: str = "none"
    reason: str = ""

    @property
    def encoder_settings(self) -> dict[str, Any]:
        """Settings of the encoder by name."""
        return asdict(self.encoder_config)

    @property
    def drops_nodes(self) -> bool:
        """Whether views differ on the graph: by the regularizer, or by the noise it is given."""
        noise = None if self.consistency is None else self.consistency.noise
        return drops_nodes(self.regularizer) or noise == "dropped-nodes"

    def tables(self) -> dict[str, Any]:
        """As plain tables, the form in which recipes are read and recorded."""
        tables: dict[str, Any] = {
            "regularizer": self.regularizer,
            "data": asdict(self.data),
            "propagation": asdict(self.propagation),
            "encoder": {"name": self.encoder, **self.encoder_settings},
            "training": asdict(self.training),
        }
        if self.consistency is not None:
            tables["consistency"] = asdict(self.consistency)
        for section, younger in YOUNGER.items():
            for name, value in younger.items():
                if tables.get(section, {}).get(name) == value:
                    del tables[section][name]
        if self.stages.method != "none":
            tables["stages"] = asdict(self.stages)
        if not self.postprocess.is_default:
            tables["postprocess"] = asdict(self.postprocess)
        return tables

    @classmethod
    def from_tables(cls, tables: Tables, *, preset: str = "none", reason: str = "") -> Recipe:
        """Check and fill every section; an unknown section or setting is named."""
        for key, value in tables.items():
            if key != "regularizer" and key not in SECTIONS:
                raise ConfigError(key, value, f"one of the sections {', '.join(SECTIONS)}")
        _check_tables(tables)
        encoder = dict(tables.get("encoder", {}))
        name = encoder.pop("name", None)
        if not isinstance(name, str):
            raise ConfigError("encoder.name", name, f"one of {', '.join(ENCODERS)}")
        regularizer = tables.get("regularizer", "none")
        check_regularizer(regularizer)

        def filled(config: type[Section], section: str) -> Section:
            values = encoder if section == "encoder" else tables.get(section, {})
            return build(
                config, values, section=section, elsewhere=partial(_elsewhere, section, name)
            )

        settings = filled(encoder_class(name).config_class, "encoder")
        propagation = filled(PropagationConfig, "propagation")
        consistency = consistency_config(regularizer, tables.get("consistency", {}))
        _check_mixture(name, settings, regularizer, propagation, consistency)
        return cls(
            encoder=name,
            encoder_config=settings,
            regularizer=regularizer,
            data=filled(FeatureConfig, "data"),
            propagation=propagation,
            consistency=consistency,
            training=filled(TrainingConfig, "training"),
            stages=filled(StagesConfig, "stages"),
            postprocess=filled(PostprocessConfig, "postprocess"),
            preset=preset,
            reason=reason,
        )


def resolve(
    facts: GraphFacts,
    *,
    encoder: str | None = None,
    regularizer: str | None = None,
    layers: Iterable[Tables] = (),
    preset: str = "auto",
    choice: Choice | None = None,
) -> Recipe:
    """Choose a preset by the facts of a graph and lay the user's settings over it.

    Args:
        facts: Sizes of the graph and of its training set.
        encoder: Name; none: the layers', else `auto`: what was chosen, or `ssgc`.
        regularizer: Name; none: the layers', else the default, `scr`.
        layers: Recipe tables, later ones win.
        preset: A preset's name, `auto`, or `none`: the layers stand alone, as published recipes do.
        choice: What a look at the graph chose, below the layers; none: it was not looked at.
    """
    below = {} if choice is None else choice.tables
    layers = [below, *layers]
    plain = merge(*layers)
    encoder = encoder or plain.get("encoder", {}).get("name") or AUTO_ENCODER
    looked_at = str(below.get("encoder", {}).get("name", DEFAULT_ENCODER))
    if encoder == AUTO_ENCODER:
        encoder = looked_at
    elif encoder != looked_at:  # settings of another encoder mean nothing to this one
        layers[0] = {key: value for key, value in below.items() if key != "encoder"}
    regularizer = regularizer or plain.get("regularizer") or DEFAULT_REGULARIZER
    check_regularizer(regularizer)
    known = _names(encoder_class(encoder).config_class)
    chosen = choose_preset(facts) if preset == "auto" else (preset, "chosen by name")
    names = variants(encoder, regularizer)
    is_chosen = choice is not None
    kinds = {
        "auto": is_chosen, "reduced": facts.reduced, "auto+reduced": is_chosen and facts.reduced
    }  # fmt: skip
    kind = [name for name, applies in kinds.items() if applies]
    common = {} if preset == "none" else read_preset(chosen[0])
    # A preset's common weight and threshold are SCR's; another method's are its paper's, unless
    # the preset has a table for it.
    own = {"consistency": defaults_of(regularizer)}
    base = specialize(merge(common, own), *kind, *names)
    base.pop("description", None)
    settings = base.get("encoder", {})
    base["encoder"] = {key: value for key, value in settings.items() if key in known}
    named = [specialize(layer, *names) for layer in layers]
    fixed = {"encoder": {"name": encoder}, "regularizer": regularizer}
    if facts.multilabel:
        base = merge({"training": {"metric": "roc-auc"}}, base)
    reason = "; ".join(filter(None, (chosen[1], choice.reason if choice else "")))
    recipe = Recipe.from_tables(merge(base, *named, fixed), preset=chosen[0], reason=reason)
    if facts.multilabel:
        check_multilabel(recipe, facts)
    return recipe


def check_multilabel(recipe: Recipe, facts: GraphFacts) -> None:
    """Refuse what there is for one class per node only."""
    targets = "where nodes have several targets"
    if facts.types > 1 or facts.relations > 1:
        raise GraphError(
            f"The graph has {facts.types} types of nodes, {facts.relations} relations and several "
            "targets per node; expected one type and relation, or one class per node"
        )
    if recipe.regularizer not in ("none", "scr"):
        raise ConfigError("regularizer", recipe.regularizer, f"`none` or `scr` {targets}")
    plain = (
        ("stages.method", recipe.stages.method, "none"),
        ("postprocess.method", recipe.postprocess.method, "none"),
        ("training.class_weights", recipe.training.class_weights, "none"),
        ("propagation.label_hops", recipe.propagation.label_matrices, 0),
    )
    for setting, value, expected in plain:
        if value != expected:
            raise ConfigError(setting, value, f"`{expected}` {targets}")


def check_regularizer(name: object, setting: str = "regularizer") -> None:
    """Refuse an unknown regularizer and suggest the closest name; `setting` is for messages."""
    if name not in REGULARIZERS:
        hint = did_you_mean(name, REGULARIZERS)
        raise ConfigError(setting, name, f"one of {', '.join(REGULARIZERS)}", hint=hint)


def variants(encoder: str, regularizer: str) -> tuple[str, ...]:
    """Names below `for` that apply to a run, the most special last, such as `ssgc+scr`.

    What an encoder wants, it also wants over subsets of relations: `gamlp` is for `nars-gamlp` too.
    """
    inner = (encoder.removeprefix(PREFIX),) if encoder.startswith(PREFIX) else ()
    return *inner, encoder, regularizer, f"{encoder}+{regularizer}"


def specialize(tables: Tables, *names: str) -> dict[str, Any]:
    """Lay the tables below `for.NAME` of each name, in turn, over the common ones.

    Names are those of `variants`, and `reduced` in presets for features that are reduced.

    So one file can hold the settings of a whole comparison:

        [training]
        epochs = 300
        [for.gamlp.encoder]
        hidden = 64
    """
    _check_tables(tables)
    common = dict(tables)
    special = common.pop("for", {})
    for name, table in special.items():
        if not isinstance(table, Mapping):
            raise ConfigError(f"for.{name}", table, "a table of sections")
    return merge(common, *(special.get(name, {}) for name in names))


def merge(*layers: Tables) -> dict[str, Any]:
    """Lay tables over each other, section by section; the last one wins."""
    merged: dict[str, Any] = {}
    for layer in layers:
        _check_tables(layer)
        for key, value in layer.items():
            below = merged.get(key, {})
            if isinstance(value, Mapping) and isinstance(below, Mapping):
                merged[key] = {**below, **value}
            else:
                merged[key] = value
    return merged


def _elsewhere(section: str, encoder: str, key: str) -> str | None:
    """A hint for a setting that another section or encoder has, or for a usual name of none."""
    if (section, key) == ("training", "lr"):
        return "did you mean `learning_rate`?"
    owners = [f"`{name}`" for name, code in ENCODERS.items() if key in _names(code.config_class)]
    if section == "encoder" and owners:
        return (
            f"`{key}` is a setting of {', '.join(owners)}; `scr encoders {encoder}` lists those "
            f"of `{encoder}`"
        )
    configs: dict[str, type[Settings]] = {
        "encoder": encoder_class(encoder).config_class,
        "consistency": ConsistencyConfig,
        "training": TrainingConfig,
        "propagation": PropagationConfig,
        "data": FeatureConfig,
    }
    for other, config in configs.items():
        if key in _names(config):
            named = f'"name": "{encoder}", ' if other == "encoder" else ""
            python = f"{key}=..." if other == "training" else f'{other}={{{named}"{key}": ...}}'
            return (
                f"it is a setting of the section {other}: `{other}.{key}`, in Python "
                f"`NodeClassifier({python})`"
            )
    return None


def _names(config: type[Settings]) -> set[str]:
    return {entry.name for entry in dataclasses.fields(config)}


def _check_mixture(
    encoder: str,
    settings: EncoderConfig,
    regularizer: str,
    propagation: PropagationConfig,
    consistency: ConsistencyConfig | None,
) -> None:
    """Refuse dropped nodes for encoders that do not read one fixed mixture of hops."""
    noise = None if consistency is None else consistency.noise
    if not drops_nodes(regularizer) and noise != "dropped-nodes":
        return
    fitting = "`ssgc`, `sgc` or `mlp`"
    by = regularizer if drops_nodes(regularizer) else f"consistency.noise = {noise}"
    if encoder_class(encoder).fixed_mixture(settings, propagation.matrices) is None:
        if not drops_nodes(regularizer):
            expected = f"{fitting} with `{by}`, which needs a fixed mixture of hops"
            raise ConfigError("encoder.name", encoder, expected)
        raise PairError(
            encoder,
            regularizer,
            fitting=fitting,
            reason="propagates anew for each view and so needs a fixed mixture of hops",
        )
    if propagation.hop_scale != "none":
        raise ConfigError("propagation.hop_scale", propagation.hop_scale,
                          f"`none` with `{by}`: a mixture of scaled hops is not linear",
                          hint="`propagation.row_scale` scales the mixture")  # fmt: skip


def _check_tables(tables: Tables) -> None:
    """Sections must be tables before anything can be laid over them."""
    for key in (*SECTIONS, "for"):
        if not isinstance(tables.get(key, {}), Mapping):
            raise ConfigError(key, tables[key], "a table of settings")
