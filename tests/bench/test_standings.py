"""The leaderboard's tables: ranks, scores over all games, lengths and decisions."""

import math
import re
from dataclasses import replace
from functools import partial

import pytest
from entries import LEVELS, small_copy
from ragen_bench.analysis.summary import explain_run
from ragen_bench.leaderboard.site import Pages
from ragen_bench.leaderboard.standings import (
    below_random,
    by_length,
    overall_standings,
    score_of,
    standings,
    with_decisions,
)
from ragen_bench.leaderboard.store import StoredEntry, read_entry
from ragen_bench.stats.intervals import wilson
from site_entries import make_entries

from ragen_envs.conversation import EndReason

MANY = 64
"""Levels of each game."""


@pytest.fixture(scope="module")
def entries(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LEVELS, MANY)
        copy = partial(small_copy, levels=MANY)
        yield make_entries(tmp_path_factory.mktemp("leaderboards"), copy)


@pytest.fixture(scope="module")
def stored(entries):
    return [read_entry(folder) for folder in sorted(entries.iterdir())]


def samples_of(stored, game):
    return {each.entry.about.name: each.sample(game) for each in stored}


def every_game(stored):
    return {game: samples_of(stored, game) for game in stored[0].entry.config.suite.tasks}


def test_ranks_are_shared_by_those_that_are_not_told_apart(stored):
    overall = overall_standings(stored, every_game(stored))
    for rows in (overall, standings(stored, samples_of(stored, "Sokoban"))):
        assert {s.name: (s.rank, s.tied) for s in rows} == {
            "hero": (1, False), "rogue": (2, True), "twin": (2, True),
            "random": (None, False), "oracle": (None, False),
        }  # fmt: skip


def test_ranks_differ_in_a_table_of_many_entries(stored):
    """As many pairs as 34 entries have must not make the smallest p-value of a test insignificant."""
    hero, rogue = (next(s for s in stored if s.entry.about.name == n) for n in ("hero", "rogue"))
    names = {f"{each.entry.about.name}-{i}": each for each in (hero, rogue) for i in range(17)}
    many = [
        StoredEntry(
            each.folder,
            each.entry.model_copy(
                update={"about": each.entry.about.model_copy(update={"name": name, "title": name})}
            ),
            each.records,
        )
        for name, each in names.items()
    ]
    samples = samples_of(many, "BanditRev")
    for rows in (overall_standings(many, {"BanditRev": samples}), standings(many, samples)):
        assert {row.name: row.rank for row in rows} == {
            name: 1 if name.startswith("hero") else 18 for name in names
        }


def test_a_level_that_two_games_share_counts_once(stored):
    """Twice the same levels narrow no interval."""
    once = {"FrozenLake": samples_of(stored, "FrozenLake")}
    twin = {
        name: {i: e.model_copy(update={"task": "Twin"}) for i, e in sample.items()}
        for name, sample in once["FrozenLake"].items()
    }
    alone, twice = (
        next(row.row for row in overall_standings(stored, games) if row.name == "rogue")
        for games in (once, {**once, "Twin": twin})
    )
    assert twice["n"] == 2 * alone["n"]
    for column in ("success", "success_low", "success_high"):
        assert twice[column] == pytest.approx(alone[column], abs=0.006)


def test_the_table_over_all_games_shows_the_mean_of_their_scores(stored):
    games = every_game(stored)
    rows = {row.name: row.row for row in overall_standings(stored, games)}
    for name in ("rogue", "oracle"):
        scores = []
        for samples in games.values():
            episodes = samples[name].values()
            solved, chance, best = (
                sum(getattr(e, field) for e in episodes)
                for field in ("success", "random_success", "optimal_success")
            )
            scores.append(100 * (solved - chance) / (best - chance))
        row = rows[name]
        assert row["score"] == pytest.approx(sum(scores) / len(scores))
        assert row["score_low"] <= row["score"] <= row["score_high"]
        assert row["score_high"] - row["score_low"] < 20


def test_an_entry_without_a_score_has_no_rank(stored, tmp_path):
    games = {game: dict(samples) for game, samples in every_game(stored).items()}
    for name in ("rogue", "twin"):
        games["Sokoban"][name] = {}
    overall = overall_standings(stored, games)
    assert {s.name: (s.rank, s.tied, s.control) for s in overall} == {
        "hero": (1, False, False), "rogue": (None, False, False), "twin": (None, False, False),
        "random": (None, False, True), "oracle": (None, False, True),
    }  # fmt: skip
    suite, tables = stored[0].entry.config.suite, dict.fromkeys(games, overall)
    Pages(tmp_path, stored, suite, []).write_index(overall, tables)
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    table = re.search(r'id="overall".*?</table>', page, re.DOTALL)[0]
    rows = re.findall(r"<tr.*?</tr>", table, re.DOTALL)
    ranks = {
        standing.name: re.search(r"<td[^>]*>(.*?)</td>", row)[1]
        for standing in overall
        for row in rows
        if f"entries/{standing.name}.html" in row
    }
    control = '<span class="quiet">control</span>'
    assert ranks == {"hero": "1", "rogue": "–", "twin": "–", "random": control, "oracle": control}


def test_many_levels_of_easy_games_do_not_lift_an_agent_over_a_better_one(stored):
    """Half of the lake's distance from chance counts more than all of a bandit's levels."""
    games = every_game(stored)
    wide, narrow = games["Sokoban"], games["Bandit"]
    few = {index: narrow["random"][index] for index in list(narrow["random"])[:8]}
    mixed = {"Sokoban": dict(wide), "Bandit": dict.fromkeys(narrow, few)}
    mixed["Bandit"]["hero"] = {i: e.model_copy(update={"success": False}) for i, e in few.items()}
    mixed["Sokoban"]["rogue"] = mixed["Sokoban"]["hero"]
    mixed["Bandit"]["rogue"] = {i: e.model_copy(update={"success": True}) for i, e in few.items()}
    rows = overall_standings(stored, mixed)
    by_name = {row.name: row for row in rows}
    assert by_name["rogue"].row["score"] - by_name["hero"].row["score"] == pytest.approx(100, abs=1)
    assert by_name["rogue"].rank == 1 < by_name["hero"].rank


def test_failed_episodes_count_in_luck_corrected_success(stored):
    """Failing on a level must not be better than losing on it."""
    (oracle,) = (s for s in stored if s.entry.about.name == "oracle")
    whole = dict(list(samples_of([oracle], "FrozenLake")["oracle"].items())[:16])
    failed = {"turns": (), "success": False, "end": EndReason.ERROR, "error": "TimeoutError"}
    part = {i: e.model_copy(update=failed) if i < 4 else e for i, e in whole.items()}

    def row(sample):
        samples = {"oracle": sample}
        run = oracle.run._replace(samples={("oracle", "FrozenLake"): sample})
        ledgers = {"oracle": explain_run(run).ledgers.get(("oracle", "FrozenLake"), ())}
        (found,) = with_decisions(standings([oracle], samples), ledgers, samples)
        return found.row

    untold = with_decisions(standings([oracle], {"oracle": part}), {"oracle": ()}, {"oracle": part})
    assert math.isnan(untold[0].row["corrected"])  # of a game without ledgers

    rest, some, none = (
        row(dict(list(whole.items())[4:])),
        row(part),
        row(dict(list(part.items())[:4])),
    )
    assert some["corrected"] == pytest.approx(rest["corrected"] * 12 / 16)
    assert some["corrected_low"] < some["corrected"] < some["corrected_high"]
    assert some["regret"] == rest["regret"]
    assert none["corrected"] == none["corrected_low"] == 0 < none["corrected_high"]


def test_an_entry_below_random_on_its_training_game_is_named(stored):
    hero = next(each for each in stored if each.entry.about.name == "hero")
    lost = with_episodes(hero, "Sokoban", {"success": False})
    (note,) = below_random([lost])
    assert below_random([hero]) == []
    assert "plays Sokoban, which it was trained on, worse than random: it solves 0 of" in note
    hard = with_episodes(hero, "Sokoban", {"success": False, "random_success": 1e-5})
    assert below_random([hard]) == []
    unknown = with_episodes(hero, "Sokoban", {"success": False, "random_success": None})
    assert below_random([unknown]) == []


def with_episodes(stored, game, update):
    """Return an entry whose episodes of a game are changed."""
    records = [
        replace(record, episode=record.episode.model_copy(update=update))
        if record.episode.task == game
        else record
        for record in stored.records
    ]
    return replace(stored, records=records)


@pytest.mark.parametrize("success", [False, True])
def test_the_mean_score_is_uncertain_where_nothing_or_everything_is_solved(stored, success):
    changed = next(each for each in stored if each.entry.about.name == "hero")
    update = {"success": success, "random_success": 0.2, "optimal_success": 1.0}
    for game in ("FrozenLakeDeterministic", "Cube"):
        changed = with_episodes(changed, game, update)
    games = {game: samples_of([changed], game) for game in ("FrozenLakeDeterministic", "Cube")}
    score, n = score_of(games, "hero"), len(games["Cube"]["hero"])
    one = wilson(n * success, n)
    # The mean of two independent intervals of one width is narrower by the root of 2.
    assert score.high - score.low > 0.99 * 100 * (one.high - one.low) / 0.8 / 2**0.5


def test_one_level_more_is_not_a_better_rank(stored):
    samples = {name: dict(sample) for name, sample in samples_of(stored, "Sokoban").items()}
    index = next(i for i, e in samples["twin"].items() if not e.success)
    samples["twin"][index] = samples["hero"][index]
    ranks = {s.name: s.rank for s in standings(stored, samples)}
    assert ranks["twin"] == ranks["rogue"] == 2


def test_lengths_are_those_of_the_shortest_solutions(stored):
    rows = [row for row in by_length(samples_of(stored, "Sokoban")) if row.name == "hero"]
    assert all(row.success.estimate == 1 for row in rows)
    solved = [e for e in read_sample(stored, "oracle", "Sokoban") if e.success]
    assert sum(row.n for row in rows) == len(solved)
    for game in ("FrozenLake", "Bandit"):  # chance; one length
        assert by_length(samples_of(stored, game)) == []


def read_sample(stored, name, game):
    return samples_of(stored, game)[name].values()
