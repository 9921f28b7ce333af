"""Campaigns against scr: thousands of cases of what may go wrong, each repeatable by its number.

python -m campaigns                         all of them, about an hour on two cores
python -m campaigns kills --minutes 5       one of them, for five minutes
python -m campaigns kills --seed 3 --case 17   one case again

A campaign is a subclass of `Campaign` in a module of this folder, named in `_catalog.py`. A case is
decided by campaign, seed and number. Rows go to `.work/NAME.jsonl` as they come, so that a campaign
that was stopped resumes after its last case; the summary goes to `results/NAME.json`.
"""

from __future__ import annotations

from campaigns._campaign import Campaign, Result, generator
from campaigns._engine import Row, run_cases

__all__ = ["Campaign", "Result", "Row", "generator", "run_cases"]
