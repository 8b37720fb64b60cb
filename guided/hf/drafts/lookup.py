"""Prompt look-up: guess the text that followed an earlier occurrence of the answer's last bytes.

Occurrences are searched in prompt and answer.  Texts are compared, not tokens: a word that follows a space in the
prompt is also found after a quote.  In JSON a value is guessed before its first byte: values mostly come in the order
of the prompt, so it is the next word after the last value there, or the next number.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice

from guided.engine.engine import Engine
from guided.hf.drafts.draft import Ask, Draft, DraftTrial
from guided.rows.alone import attempt
from guided.rows.answer import RowAnswer

__all__ = ["PromptLookup"]

#: Bytes at the end of the answer that are looked for, the surest first; `WORD` is the word that has begun, which is
#: looked for at the beginning of words.
WORD = 0
ENDS = (8, 4, WORD, 3, 2)

#: Of them those that are looked for in free text, where the others find too much.
FREE_ENDS = (8,)

#: Guesses in JSON that no end is looked for: what opens a value, the next value of the prompt, what closes it.
OPEN, NEXT, CLOSE = -1, -2, -3
_OPENERS = (b' "', b' ["', b" [", b" {", b" ")
_CLOSERS = (b'",', b'"}', b'"]', b'"', b",", b"}", b"]")

#: By end, and by whether the guess goes on inside a word: the share of guesses that are right before any was tried,
#: as right ones and all.
RATES = {
    (8, False): (5, 6), (8, True): (6, 7), (4, False): (3, 6), (4, True): (4, 6), (WORD, False): (4, 6),
    (WORD, True): (5, 6), (3, False): (2, 6), (3, True): (3, 6), (2, False): (3, 6), (2, True): (3, 6),
    **{(kind, is_inside): (4, 6) for kind in (OPEN, NEXT, CLOSE) for is_inside in (False, True)},
}  # fmt: skip

#: Occurrences of one end that are tried, the latest first.
OCCURRENCES = 4

#: Searches for them: a word that has begun also stands inside other words.
SEARCHES = 64

#: Words that are tried as the next value: names and numbers, then others.
TRIES = 12

#: Bytes of text that are tokenised for one guess.
BYTES = 5

_WORD = re.compile(rb"[\w\x80-\xff]+")
_LAST_WORD = re.compile(rb"[\w\x80-\xff]+\Z")
_VALUE = re.compile(rb'"([^"\\]+)"[,}\]]|(?<![\d.])(-?\d[\d.]*+)[,}\]]')
_VALUE_BEGINS = re.compile(rb'[:\[,{] ?"?\Z')
_NAME = re.compile(rb"[A-Z0-9][\w\x80-\xff.-]*(?<!\.)(?: [A-Z][\w\x80-\xff-]*)*")
_IN_QUOTES = (re.compile(rb"[A-Z0-9][\w\x80-\xff]*"), re.compile(rb"[a-z]+"))
_BARE = (re.compile(rb"-?\d[\d.]*"), re.compile(rb"[a-z]+"))


class _Row:
    """The look-up of one row: the text of prompt and answer, and how often guesses after each end were right."""

    def __init__(self, engine: Engine, answer: RowAnswer, prompt: Sequence[int]) -> None:
        self._engine = engine
        self.answer = answer
        self.text = bytearray()
        self.num_read = 0  # tokens of the answer in the text
        self.rates = {kind: list(rate) for kind, rate in RATES.items()}
        self.add(prompt)
        self.prompt_size = len(self.text)
        self.name_end = -1  # where the name or number ends that is being copied from the prompt

    def add(self, tokens: Sequence[int]) -> None:
        """Append the text of tokens."""
        for token in tokens:
            self.text += self._engine.token_bytes(token)

    def kind(self, end: int, token: int) -> tuple[int, bool]:
        """Return the key of the rate of a guess."""
        both = self.text[-1:] + self._engine.token_bytes(token)[:1]
        return end, len(both) == 2 and _WORD.fullmatch(both) is not None

    def continuation(self, trial: DraftTrial, most: int) -> tuple[list[int], int]:
        """Return up to ``most`` tokens that followed an earlier occurrence of an end, the first one legal, and the end.

        No tokens where there is none.
        """
        text = self.text
        is_formatted = trial.is_formatted
        if is_formatted and len(text) > self.prompt_size:
            tokens, kind = self._found_in_json(trial, most)
            if tokens:
                return tokens, kind
        begun = _LAST_WORD.search(text[-32:])
        word = begun.group() if begun is not None else b""
        for end in ENDS if is_formatted else FREE_ENDS:
            sought = bytes(word if end == WORD else text[-end:])
            for place in self._occurrences(sought, end == WORD) if len(sought) < len(text) else ():
                tokens = self._after(place + len(sought), word if len(word) <= len(sought) else b"", most, is_formatted)
                if not tokens and self.name_end == len(text):
                    return self._legal(trial, _CLOSERS), CLOSE
                if tokens and trial.allows(tokens[0]):
                    return tokens, end
        return [], 0

    def _found_in_json(self, trial: DraftTrial, most: int) -> tuple[list[int], int]:
        """Return what opens, is or closes a value, and its kind; no tokens where nothing is known of it."""
        text = self.text
        if text.endswith(b":"):
            return self._legal(trial, _OPENERS), OPEN
        if self.name_end == len(text):
            return self._legal(trial, _CLOSERS), CLOSE
        if not _VALUE_BEGINS.search(text[-3:]):
            return [], NEXT
        values = _VALUE.findall(text, self.prompt_size)
        last = max(values[-1]) if values else b"\n\n"
        place = text.rfind(last, 0, self.prompt_size)
        for words in _IN_QUOTES if text.endswith(b'"') else _BARE:
            for word in islice(words.finditer(text, place + len(last), self.prompt_size), TRIES if place >= 0 else 0):
                tokens = self._after(word.start(), b"", most, True)
                if tokens and trial.allows(tokens[0]):
                    return tokens, NEXT
        return [], NEXT

    def _legal(self, trial: DraftTrial, texts: Sequence[bytes]) -> list[int]:
        """Return the first token of the first of ``texts`` whose first token is legal."""
        tokens = (self._tokens(text)[:1] for text in texts)
        return next((first for first in tokens if trial.allows(first[0])), [])

    def _occurrences(self, sought: bytes, is_word: bool) -> Iterator[int]:
        """Yield the places of ``sought`` before the text's end, the latest first; of a word, only where one begins."""
        place, left = len(self.text) - len(sought), OCCURRENCES
        for _ in range(SEARCHES if sought else 0):
            place = self.text.rfind(sought, 0, place + len(sought) - 1)
            if place < 0 or not left:
                return
            if not is_word or not place or not _WORD.match(self.text, place - 1):
                yield place
                left -= 1

    def _after(self, place: int, word: bytes, most: int, in_value: bool) -> list[int]:
        """Return the tokens from byte ``place`` on, of which ``word`` stands before: as a model would write them.

        ``in_value``: of the prompt, those to the end of a name or number.
        """
        following = bytes(self.text[place : place + BYTES * most])
        name = _NAME.match(word + following) if in_value and place < self.prompt_size else None
        size = name.end() - len(word) if name is not None else -1
        is_name = 0 <= size < len(following) and following[size] != 0x22
        if is_name:
            following, self.name_end = following[:size], len(self.text) + size
        tokens = self._tokens(word + following)
        size = skipped = 0
        while size < len(word):
            size += len(self._engine.token_bytes(tokens[skipped]))
            skipped += 1
        tokens = tokens[skipped:] if size == len(word) else self._tokens(following)
        if place + len(following) < len(self.text) and not is_name:
            tokens = tokens[:-1]  # it may be cut
        return tokens[:most]

    def _tokens(self, text: bytes) -> list[int]:
        return list(self._engine.ll_tokenizer.tokenize_bytes(text))


class PromptLookup:
    """Drafts of at most ``most`` guesses from what each row has read and written; rows go by number."""

    def __init__(
        self, engine: Engine, answers: Sequence[RowAnswer], prompts: Sequence[Sequence[int]], most: int
    ) -> None:
        self._ends = engine.tokens.end_ids
        self._most = most
        self._rows = [_Row(engine, answer, prompt) for answer, prompt in zip(answers, prompts, strict=True)]

    def propose(self, asks: Sequence[Ask]) -> list[Draft]:
        """Return a draft for each row, empty where nothing was found."""
        rows = [self._rows[ask.number] for ask in asks]
        return [
            attempt(row.answer.fail, Draft(), self._propose, row, ask.room) for row, ask in zip(rows, asks, strict=True)
        ]

    def learn(self, number: int, draft: Draft, num_accepted: int) -> None:
        """Note that the first ``num_accepted`` guesses of ``draft`` were right, and the next one wrong."""
        for i, guess in enumerate(draft.guesses[: num_accepted + 1]):
            assert guess.evidence is not None
            rate = self._rows[number].rates[guess.evidence]
            rate[0] += i < num_accepted
            rate[1] += 1

    def _propose(self, row: _Row, room: int) -> Draft:
        tokens = row.answer.tokens
        row.add(tokens[row.num_read :])
        row.num_read = len(tokens)
        size = len(row.text)
        trial = DraftTrial(row.answer.sequence, self._ends, room)
        while len(trial.draft.guesses) < self._most and self._guess(row, trial):
            pass
        del row.text[size:]
        return trial.draft

    def _guess(self, row: _Row, trial: DraftTrial) -> bool:
        """Look up and guess; return whether to look up again: all was taken, or a guess that forces others."""
        tokens, end = row.continuation(trial, self._most - len(trial.draft.guesses))
        for token in tokens:
            kind = row.kind(end, token)
            right, tried = row.rates[kind]
            run = trial.guess(token, right / tried, kind)
            if run is None:
                return False
            row.add([token, *run])
            if run:
                return True
        return bool(tokens)
