"""The search of a shop: BM25 over titles, descriptions, first bullets and options."""

from functools import lru_cache
from typing import Final

import numpy as np

from ragen_envs.games.webshop.catalogue import Catalogue

MOST_HITS: Final = 50
_DIGITS: Final = 4
"""Scores are rounded to so many digits, so that ties do not depend on the machine's arithmetic."""


class SearchEngine:
    """Finds products by words: BM25 with k1 0.9 and b 0.4, English stop words and Porter's stemmer.

    Products with equal scores come in the order of the catalogue.
    """

    def __init__(self, catalogue: Catalogue) -> None:
        import bm25s  # takes half a second, which only those who search need
        import Stemmer

        self._tokenize = bm25s.tokenize
        self._stemmer = Stemmer.Stemmer("porter")
        self._index = bm25s.BM25(k1=0.9, b=0.4, method="lucene")
        texts = [product.searchable for product in catalogue]
        tokens = self._tokenize(texts, stopwords="en", stemmer=self._stemmer, show_progress=False)
        self._index.index(tokens, show_progress=False)
        self.search = lru_cache(maxsize=4096)(self._search)
        """Return the numbers of the products that share a word with a query, the best first, at most 50."""

    def _search(self, query: str) -> tuple[int, ...]:
        (words,) = self._tokenize(
            query.lower(), stopwords="en", stemmer=self._stemmer, return_ids=False, show_progress=False
        )
        if not words:
            return ()
        scores = np.round(self._index.get_scores(words), _DIGITS)
        hits = np.flatnonzero(scores > 0)
        if len(hits) > 4 * MOST_HITS:
            bar = np.partition(scores[hits], -MOST_HITS)[-MOST_HITS]
            hits = hits[scores[hits] >= bar]
        order = np.argsort(-scores[hits], kind="stable")[:MOST_HITS]
        return tuple(hits[order].tolist())


@lru_cache(maxsize=4)
def engine_of(catalogue: Catalogue) -> SearchEngine:
    """Return the search engine of a catalogue, made at its first use."""
    return SearchEngine(catalogue)
