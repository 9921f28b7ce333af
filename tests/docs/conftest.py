"""A folder with what pages presuppose, and training cut short: few epochs, folds and members."""

from __future__ import annotations

import shutil
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
from tests.docs import given
from tests.docs.blocks import REPOSITORY, read_blocks
from tests.docs.session import Session

import scr.classifier
from scr.tuning import _tune

EPOCHS = 3
"""Of a training run for which a page names no number, or one above the most."""
MOST_EPOCHS = 60
"""Enough for the accuracies that are expected of some pages."""


@pytest.fixture(scope="session")
def given_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("given")
    given.make_files(folder)
    return folder


@pytest.fixture
def open_page(given_files, tmp_path, monkeypatch):
    """Open a page of the repository, or a text, in a folder of its own."""
    without_run = shutil.ignore_patterns("run")
    shutil.copytree(given_files, tmp_path, dirs_exist_ok=True, ignore=without_run)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("scr.classifier.resolve", _with_few_epochs(scr.classifier.resolve))
    members = {"first": {}, "base": {"regularizer": "none"}}
    monkeypatch.setattr("scr.tuning._portfolio.read_portfolio", lambda typed: members)
    monkeypatch.setattr(_tune, "fold_graphs", partial(_tune.fold_graphs, folds=2))
    monkeypatch.setattr("scr.engines._local._cores", lambda: 1)

    def open_page(page: str, text: str | None = None) -> Session:
        shown = text or (REPOSITORY / page).read_text(encoding="utf-8")
        return Session(read_blocks(shown, page), cache(given.make_names), given_files / "run")

    return open_page


def _with_few_epochs(resolve: Any) -> Any:
    def resolved(*args: Any, layers: Any = (), **settings: Any) -> Any:
        few, layers = {"training": {"epochs": EPOCHS}}, list(layers)
        recipe = resolve(*args, layers=[few, *layers], **settings)
        if recipe.training.epochs > MOST_EPOCHS:
            recipe = resolve(*args, layers=[*layers, few], **settings)
        return recipe

    return resolved
