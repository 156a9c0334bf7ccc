"""WebShop as a Gymnasium environment."""

from pathlib import Path
from typing import Any

import numpy as np

from ragen_envs.errors import RagenError
from ragen_envs.game.arguments import Level, read_choice, read_count
from ragen_envs.game.oracle import Advice, Budget, as_budget
from ragen_envs.game.word_game import Legality, WordGameEnv
from ragen_envs.games.webshop import dynamics, image, oracle, text
from ragen_envs.games.webshop.catalogue import FAMILY, Catalogue, make_catalogue
from ragen_envs.games.webshop.goals import Goal, decode_goal, draw_goal, encode_goal
from ragen_envs.games.webshop.html import page_html
from ragen_envs.games.webshop.published import read_goals, read_shop
from ragen_envs.games.webshop.reward import Verdict, judge
from ragen_envs.levels.seeding import Rng
from ragen_envs.levels.splits import TRAIN
from ragen_envs.pictures.drawing import Image

MODES: tuple[str, ...] = ("page", "text", "text_rich", "html")
REWARDS: tuple[str, ...] = ("score", "binary")
PRODUCTS: int = 1000
"""Default size of a generated catalogue."""


class WebShopEnv(WordGameEnv):
    """Buy what an instruction asks for in an online shop.

    ## Description
    WebShop (Yao et al. 2022, arXiv 2207.01206) with a catalogue generated from a seed. The
    instruction asks for a kind of product, attributes, options and a price limit. Products come in
    families of five, in which one differs in an attribute, in what it is, in the values of an option,
    or in the price. Transitions are deterministic.

    ## Action Space
    `FreeText(4096)`: `search[words]` or `click[button]`, in any case. A search is legal
    on every page and clears the chosen options. A click names a button of the page: a product's
    number, an option's value, `Next >`, `< Prev`, `Back to Search`, `Description`, `Features`,
    `Reviews` or `Buy Now`.

    ## Observation Space
    `FreeText(131072)`: the page with the instruction. `observation_mode` chooses its form: "page",
    plain lines; "text", the visible texts joined by " [SEP] ", and "text_rich", with marked buttons,
    both as published; or "html".

    ## Starting State
    The search page. The goal is drawn from a uniform product: one to three of its four attributes,
    at least one of which the search does not index, so that the product's page must be read; a
    value of each option; and a price limit, the larger of two random ones of the first four
    multiples of ten above the price. All products of a family count as one level and
    belong to one split: 200 families of the default catalogue, which training can memorise.

    ## Rewards
    At the purchase, the published score in [0, 1]: type * (attributes + options + [price within the
    limit]) / (number of attributes + number of options + 1), where type is 1 for the kind of
    product asked for. With `reward="binary"`, as in RAGEN, 1 if the score is 1, else 0.

    ## Episode End
    Terminates at the purchase; truncated by the registered time limit of 100 steps.

    ## Information
    `success` (bool): the purchase has a score of 1. `action_is_effective` (bool): the page changed.
    `score` (float): the score of the purchase; 0 before it. `wrong` (str): what was wrong with it, of
    product, attribute, option and price, joined by commas; "" if nothing was, or before it.

    ## Arguments
    `products`: number of products, from 50 to 100,000. `catalogue_seed`: seed of the catalogue, >=
    0. `data`: a folder with the published files (docs/webshop.md). `observation_mode`:
    "page", "text", "text_rich" or "html". `reward`: "score" or "binary". `hints`: whether the rules
    end with advice on how to shop, as in RAGEN's prompt. `level`: a fixed goal in its text form.
    `render_mode`: "ansi", "html" or "rgb_array".

    ## Differences from the published code
    - Prices and limits are part of the catalogue and of the frozen goals. In the generated catalogue, the
      two multiples of ten of a limit may be equal.
    - Splits are by family, not by a shuffle of goals.
    - `Next >` is shown only where a page follows.
    - Options that share a value have separate buttons, named `option: value`.
    - A click on a button that is not on the page is illegal, with a reason; upstream it does nothing.
    - In the generated catalogue, the kind of a product is known, and attributes and options must be exactly
      those asked for. Similar words, such as "king" for "california king", match on published data only.
    - The search is BM25 by `bm25s`, with ties in the order of the catalogue.

    ## Version History
    * v0: Initial version.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi", "html", "rgb_array"], "render_fps": 4}
    action_names = "search[words]", "click[button]"
    text = text.WebShopText()
    has_packs = True
    deterministic = True
    page: dynamics.Page
    """Current page."""
    goal: Goal
    verdict: Verdict | None
    """Verdict on the purchase, or None before it."""

    def __init__(
        self,
        products: int = PRODUCTS,
        catalogue_seed: int = 0,
        data: str | Path | None = None,
        observation_mode: str = "page",
        reward: str = "score",
        hints: bool = False,
        level: Level | None = None,
        split: str = TRAIN,
        render_mode: str | None = None,
    ) -> None:
        super().__init__(split, render_mode, level)
        self.observation_mode = read_choice("observation_mode", observation_mode, MODES)
        self.reward = read_choice("reward", reward, REWARDS)
        self.hints = bool(read_choice("hints", hints, (False, True)))
        self._folder: Path | None = None
        if data is None:
            count = read_count("products", products, 10 * FAMILY, 100_000)
            seed = read_count("catalogue_seed", catalogue_seed, 0)
            self.catalogue: Catalogue = make_catalogue(count, seed)
            self.distribution = f"webshop-{count}" + (f"-{seed}" if seed else "")
        else:
            if (products, catalogue_seed) != (PRODUCTS, 0):
                raise RagenError(
                    f"products is {products!r} and catalogue_seed is {catalogue_seed!r}, but with data "
                    "both must be left out: they are of the generated catalogue"
                )
            self._folder = Path(data).expanduser().resolve()
            self.catalogue = read_shop(self._folder)
            read_goals(self._folder)  # refuses broken ones now
            self.distribution = f"webshop-{self.catalogue.name}"
        for own in self.own_levels:
            decode_goal(own, self.catalogue)

    @property
    def goals(self) -> tuple[Goal, ...]:
        """The goals of published data; none where they are drawn. They are no part of copies and pickles."""
        return () if self._folder is None else read_goals(self._folder)

    @property
    def success(self) -> bool:
        return self.verdict is not None and self.verdict.score > 1 - 1e-9

    def legality(self, action: str) -> Legality:
        return dynamics.legality(self.page, self.catalogue, action)

    def available(self) -> tuple[str, ...]:
        """Return every click that is legal, or, on the search page, a search for the instruction."""
        labels = dynamics.buttons(self.page, self.catalogue)
        clicks = tuple(f"click[{label}]" for label in labels)
        return clicks or (f"search[{self.goal.instruction}]",)

    def random_action(self, rng: np.random.Generator) -> str:
        """Return a uniform click, or, on the search page, a search for three words of the instruction."""
        if self.page.query is None:
            words = self.goal.instruction.split()
            chosen = rng.choice(len(words), size=min(3, len(words)), replace=False)
            return f"search[{' '.join(words[i] for i in sorted(chosen))}]"
        return super().random_action(rng)

    def play(self, action: str) -> tuple[float, bool, bool]:
        before = self.page
        self.page = dynamics.play(before, self.catalogue, action)
        if not self.page.bought:
            return 0.0, False, self.page != before
        assert self.page.product is not None
        self.verdict = judge(self.goal, self.page.product, self.page.options)
        paid = float(self.success) if self.reward == "binary" else self.verdict.score
        return paid, True, True

    def oracle(self, budget: Budget | int | None = None) -> Advice:
        """Return the actions of the best purchase that fits the budget; see ``webshop.oracle``.

        Its value is 1 if that purchase is perfect; its expected return is the highest reward there is.
        """
        if self.verdict is not None:
            return Advice((), float(self.success), 0.0)
        binary = self.reward == "binary"
        return oracle.advise(self.catalogue, self.goal, self.page, as_budget(budget), binary)

    def level_key(self, level: str) -> str:
        """Return the family of the goal's product: its products belong to one split."""
        return f"webshop {decode_goal(level, self.catalogue).product.family}"

    def draw_level(self, rng: Rng) -> str:
        goal = rng.choice(self.goals) if self.goals else draw_goal(self.catalogue, rng)
        return encode_goal(goal, self.catalogue)

    def start(self, level: str) -> None:
        self.goal = decode_goal(level, self.catalogue)
        self.page = dynamics.Page()
        self.verdict = None

    def info(self, effective: bool) -> dict[str, Any]:
        wrong = () if self.verdict is None else self.verdict.wrong(self.goal)
        score = 0.0 if self.verdict is None else self.verdict.score
        return {**super().info(effective), "score": score, "wrong": ", ".join(wrong)}

    def _frame(self) -> Any:
        if self.render_mode == "html":
            return page_html(self.goal.instruction, self.page, self.catalogue)
        return super()._frame()

    def picture(self) -> Image:
        return image.render(self.goal.instruction, self.page, self.catalogue)
