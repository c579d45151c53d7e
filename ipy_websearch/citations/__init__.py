"""Citations: their numbers, their sources, and whether the sources say what was written.

`check` judges a sentence, `quote_has` a value and its quote; neither asks a model.
"""

from ipy_websearch.citations.claims import SENTENCE_END, AnswerText, CitationBook, check, quote_has

__all__ = ["SENTENCE_END", "AnswerText", "CitationBook", "check", "quote_has"]
