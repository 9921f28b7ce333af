"""What time is left after the portfolio: settings near the best member's, proposed by optuna."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from scr.training import Recipe, merge
from scr.tuning._portfolio import Member
from scr.tuning._race import ROUNDS, Race
from scr.tuning._trials import Trial

if TYPE_CHECKING:
    import optuna

MOST_PROPOSALS = 40
"""Beyond these, one fold of few labels is fitted rather than learned from."""
SHARE = 0.8
"""Of the time: later than this nothing is proposed, since the best still have folds to go."""


def refine(race: Race, trials: Sequence[Trial]) -> list[Trial]:
    """Try settings near the best trial's; returns all trials, ranked again.

    Nothing is tried without the package `optuna`, without a limit of time, or when it has passed.
    """
    if race.clock.limit is None or not trials:
        return list(trials)
    try:
        import optuna
    except ImportError:
        return list(trials)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(
        direction="maximize",
        sampler=optuna.samplers.TPESampler(seed=race.shared.seed, n_startup_trials=6),
    )
    best = trials[0].member
    found: dict[str, Trial] = {}
    first_round = ((1, None, SHARE),)
    while len(study.trials) < MOST_PROPOSALS and not race.clock.passed(SHARE):
        asked = [study.ask() for _ in range(race.slots)]
        proposed = {trial.number: propose(trial, best) for trial in asked}
        done = race.run(list({each.name: each for each in proposed.values()}.values()), first_round)
        scores = {trial.member.name: race.scored(trial) for trial in done}
        found |= {trial.member.name: trial for trial in done}
        for trial in asked:
            score = scores.get(proposed[trial.number].name)
            failed = optuna.trial.TrialState.FAIL
            study.tell(trial, score, state=None if score is not None else failed)
    # The better ones run the later rounds beside the members that already have.
    members = [trial.member for trial in (*trials, *found.values())]
    return race.run(members, ROUNDS[1:]) if found else list(trials)


def propose(trial: optuna.Trial, member: Member) -> Member:
    """Settings near those of a member."""
    recipe = member.recipe
    tables = recipe.tables()
    encoder, training = tables["encoder"], tables["training"]
    changes: dict[str, dict[str, Any]] = {
        "encoder": {"dropout": trial.suggest_float("dropout", 0.2, 0.8)},
        "training": {
            "learning_rate": trial.suggest_float(
                "learning_rate", training["learning_rate"] / 4, training["learning_rate"] * 3,
                log=True,
            ),
            "weight_decay": trial.suggest_float("weight_decay", 1e-5, 1e-2, log=True),
        },
    }  # fmt: skip
    if "input_dropout" in encoder:
        changes["encoder"]["input_dropout"] = trial.suggest_float("input_dropout", 0.0, 0.6)
    if "hidden" in encoder:
        changes["encoder"]["hidden"] = trial.suggest_categorical("hidden", [64, 128, 256])
    if tables["propagation"]["hops"]:
        changes["propagation"] = {"hops": trial.suggest_int("hops", 1, 12)}
    if recipe.consistency is not None and recipe.regularizer in ("scr", "scr-m"):
        changes["consistency"] = {
            "weight": trial.suggest_float("weight", 0.25, 3.0, log=True),
            "temperature": trial.suggest_float("temperature", 0.2, 0.8),
        }
    settings = merge(tables, changes)
    changed = Recipe.from_tables(settings, preset=recipe.preset)
    return Member(f"near-{_short(settings)}", changed, member.handicap)


def _short(tables: Mapping[str, Any]) -> str:
    text = json.dumps(tables, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=4).hexdigest()
