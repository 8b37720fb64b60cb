"""The registry of one model's special tokens.

Built once per tokenizer and generation config.  It knows the marker of each role and whether it is a single token, the
ids that end a turn and the sources that name them, and how text splits into marker tokens and plain text.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from special_tokens.catalog import SpecialToken, TokenSet, member
from special_tokens.errors import TokenizerError, shown
from special_tokens.facts import AddedToken, TokenizerFacts
from special_tokens.family import Family, match_family
from special_tokens.known_markers import HTML_TAGS, KNOWN_PAIRS, KNOWN_TOKENS, KNOWN_TURNS, category_of_text
from special_tokens.roles import PAIRS, Category, Role, Source

__all__ = ["EndToken", "Marker", "SpecialTokens"]


@dataclass(frozen=True, slots=True)
class Marker:
    """A marker of the wire format; ``id`` is None if the tokenizer does not have it as a single token.

    ``origin`` is the source that names it (``family qwen3``, ``tokenizer``, ``vocabulary``).
    """

    text: str
    id: int | None
    origin: str

    @property
    def is_token(self) -> bool:
        """Whether the tokenizer has it as a single token."""
        return self.id is not None


@dataclass(frozen=True, slots=True)
class EndToken:
    """A token that ends a turn, and the sources that say so."""

    id: int
    text: str
    sources: tuple[str, ...]


#: Role -> category of its marker.
_ROLE_CATEGORIES = {
    Role.PAD: Category.PAD,
    Role.BOS: Category.BOS,
    Role.TURN_START: Category.ROLE,
    Role.TURN_END: Category.ROLE,
    Role.REASONING_START: Category.REASONING,
    Role.REASONING_END: Category.REASONING,
    Role.TOOL_CALLS_START: Category.TOOL,
    Role.TOOL_CALLS_END: Category.TOOL,
    Role.TOOL_CALL_START: Category.TOOL,
    Role.TOOL_CALL_END: Category.TOOL,
    Role.TOOL_RESULT_START: Category.TOOL,
    Role.TOOL_RESULT_END: Category.TOOL,
}
_NAMED_CATEGORIES = {
    "pad_token": Category.PAD,
    "bos_token": Category.BOS,
    "sep_token": Category.SEP,
    "cls_token": Category.CLS,
    "mask_token": Category.MASK,
}

#: Texts that look like an end of turn.  Only reported: generation never stops because of a text's look.
_LOOKS_LIKE_END = re.compile(
    r"(?i)(?:^</s>$|eot|eos|eom|im_end|end.?of.?(?:turn|text|sentence|msg|message)|endoftext|turn\|>|<\|end\|>|<\|return\|>)"
)


class SpecialTokens:
    """The special tokens of one tokenizer; immutable, `add_end` returns a new registry.

    Without ``family`` the family is found by its signature.  ``extra_ends`` are further token ids that end a turn.
    """

    def __init__(self, facts: TokenizerFacts, *, family: Family | None = None, extra_ends: Iterable[int] = ()) -> None:
        self.facts = facts
        self.added: Mapping[int, AddedToken] = {token.id: token for token in sorted(facts.added, key=lambda t: t.id)}
        self._by_text = {token.text: token.id for token in facts.added}
        self.family = family if family is not None else match_family(self._by_text, facts.chat_template)
        self._extra_ends = tuple(extra_ends)

    # -- sizes and lookups

    @property
    def vocab_size(self) -> int:
        """The size of the vocabulary, or the width of the model's logits if that is larger."""
        return max(self.facts.vocab_size, self.facts.logits_size or 0)

    def text(self, token_id: int) -> str:
        """The text of the added token with this id; raises `KeyError` for any other id."""
        return self.added[token_id].text

    def id_of(self, text: str) -> int | None:
        """The id of the added token with exactly this text, or None."""
        return self._by_text.get(text)

    @cached_property
    def marker_ids(self) -> frozenset[int]:
        """The ids of tokens that llguidance treats as special: free text never contains them."""
        return frozenset(token.id for token in self.facts.added if token.is_marker)

    @cached_property
    def _lengths(self) -> Mapping[str, tuple[int, ...]]:
        """First character -> lengths of the markers that begin with it, longest first.

        One regular expression of all markers takes a third of a second to compile for thousands of markers.
        """
        lengths: dict[str, set[int]] = {}
        for i in self.marker_ids:
            text = self.added[i].text or "\0"
            lengths.setdefault(text[0], set()).add(len(text))
        return {first: tuple(sorted(sizes, reverse=True)) for first, sizes in lengths.items()}

    @cached_property
    def _first(self) -> re.Pattern[str] | None:
        return re.compile("[" + "".join(map(re.escape, self._lengths)) + "]") if self._lengths else None

    def _find(self, text: str, at: int) -> tuple[int, int, int] | None:
        """Begin, end and id of the next marker in ``text`` from ``at`` on; the longest marker at a place wins."""
        while self._first is not None and (match := self._first.search(text, at)):
            at = match.start()
            for length in self._lengths[match[0]]:
                token_id = self._by_text.get(text[at : at + length])
                if token_id in self.marker_ids:
                    return at, at + length, token_id
            at += 1
        return None

    def pieces(self, text: str) -> tuple[int | str, ...]:
        """Split ``text`` into ids of marker tokens and plain text; the longest marker at a place wins."""
        out: list[int | str] = []
        at = 0
        while span := self._find(text, at):
            begin, end, token_id = span
            if begin > at:
                out.append(text[at:begin])
            out.append(token_id)
            at = end
        return (*out, text[at:]) if at < len(text) else tuple(out)

    @cached_property
    def _beginnings(self) -> frozenset[str]:
        texts = (self.added[i].text for i in self.marker_ids)
        return frozenset(text[:length] for text in texts for length in range(1, len(text)))

    @cached_property
    def _longest_beginning(self) -> int:
        return max(map(len, self._beginnings), default=0)

    def begins_marker(self, text: str) -> bool:
        """Whether ``text`` ends in the beginning of a marker, which text after it could complete."""
        longest = min(len(text), self._longest_beginning)
        return any(text[-length:] in self._beginnings for length in range(1, longest + 1))

    @cached_property
    def text_ids(self) -> tuple[int, ...]:
        """The ids of tokens that llguidance treats as special although they are ordinary text: HTML tags."""
        return tuple(
            token.id
            for token in self.added.values()
            if token.is_marker and not token.special and token.text.strip("</>") in HTML_TAGS
        )

    # -- roles

    @cached_property
    def roles(self) -> Mapping[Role, Marker]:
        """Role -> marker.  Of a pair of roles either both are present or neither is."""
        markers = {role: self._marker(text, "tokenizer") for role, text in self._named_roles().items()}
        family = self.family
        if family is not None:
            for role, text in family.roles.items():
                if self.id_of(text) is not None or family.plain_markers:
                    markers[role] = self._marker(text, f"family {family.id}")
        for start, end, pairs in KNOWN_PAIRS:
            if start not in markers or end not in markers:
                self._add_pair(markers, start, end, pairs)
        if Role.TURN_END not in markers:
            self._add_pair(markers, Role.TURN_START, Role.TURN_END, KNOWN_TURNS)
        for pair_roles in PAIRS:
            if not all(role in markers for role in pair_roles):
                for role in pair_roles:
                    markers.pop(role, None)
        return markers

    def pair(self, start: Role, end: Role) -> tuple[Marker, Marker] | None:
        """The markers of a pair of roles, or None if the model has no such pair."""
        if start in self.roles and end in self.roles:
            return self.roles[start], self.roles[end]
        return None

    def _add_pair(self, markers: dict[Role, Marker], start: Role, end: Role, pairs: Iterable[tuple[str, str]]) -> None:
        for pair in pairs:
            if all(text in self._by_text for text in pair):
                markers[start], markers[end] = (self._marker(text, "vocabulary") for text in pair)
                return

    def _named_roles(self) -> dict[Role, str]:
        names = {Role.BOS: "bos_token", Role.EOS: "eos_token", Role.PAD: "pad_token", Role.UNK: "unk_token"}
        return {role: self.facts.named[name] for role, name in names.items() if name in self.facts.named}

    def _marker(self, text: str, origin: str) -> Marker:
        return Marker(text, self.id_of(text), origin)

    # -- categories

    @cached_property
    def catalog(self) -> TokenSet:
        """All special tokens: added tokens, and well-known ones that are entries of the base vocabulary.

        Each has one category, by the first of these: `ends`, the tokenizer's named tokens, `roles`, the token's text.
        """
        tokens = [
            SpecialToken(t.id, t.text, self._category(t), Source.SPECIAL if t.special else Source.ADDED)
            for t in self.added.values()
        ]
        texts = KNOWN_TOKENS | {text for *_, pairs in KNOWN_PAIRS for pair in pairs for text in pair}
        texts |= {text for pair in KNOWN_TURNS for text in pair} | {marker.text for marker in self.roles.values()}
        for text in sorted(texts):
            common = self.facts.lookup(text)
            if common is not None and common not in self.added:
                tokens.append(SpecialToken(common, text, category_of_text(text), Source.COMMON))
        return TokenSet(tuple(sorted(tokens, key=lambda token: token.id)))

    def category(self, category: str) -> TokenSet:
        """The tokens of the category with this name (see `Category`): ``tokens.category("eos").ids``.

        Raises `RequestError` for an unknown name.
        """
        return self.search(category=category)

    def search(
        self,
        *,
        id: int | None = None,
        substring: str | None = None,
        category: str | None = None,
        source: str | None = None,
    ) -> TokenSet:
        """The special tokens that match every given filter, ordered by id; ``substring`` is case-sensitive."""
        wanted = None if category is None else member(Category, category, "category")
        wanted_source = None if source is None else member(Source, source, "source")
        return TokenSet(
            tuple(
                token
                for token in self.catalog
                if (id is None or token.id == id)
                and (substring is None or substring in token.text)
                and (wanted is None or token.category is wanted)
                and (wanted_source is None or token.source is wanted_source)
            )
        )

    def _category(self, token: AddedToken) -> Category:
        if token.id in self.end_ids:
            return Category.EOS
        for name, category in _NAMED_CATEGORIES.items():
            if self.facts.named.get(name) == token.text:
                return category
        for role, marker in self.roles.items():
            if marker.text == token.text and role in _ROLE_CATEGORIES:
                return _ROLE_CATEGORIES[role]
        return category_of_text(token.text)

    # -- ends

    @cached_property
    def ends(self) -> tuple[EndToken, ...]:
        """The tokens that end a turn, ordered by id.

        Generation config, model config, tokenizer and family file name them; the family's ``not_ends`` are removed.
        Only added tokens count: an ordinary token may occur in text, so it can be a stop sequence but not an end.
        """
        sources: dict[int, list[str]] = {}

        def add(ids: Iterable[int | None], source: str) -> None:
            for i in ids:
                if i is not None and i in self.added:
                    sources.setdefault(i, []).append(source)

        add(self.facts.generation_eos, "generation_config")
        add(self.facts.config_eos, "config")
        add([self.id_of(self.facts.named.get("eos_token", ""))], "tokenizer")
        if self.family is not None:
            add(map(self.id_of, self.family.ends), f"family {self.family.id}")
        add(self._extra_ends, "request")
        not_ends = {self.id_of(text) for text in (self.family.not_ends if self.family else ())}
        return tuple(
            EndToken(i, self.added[i].text, tuple(dict.fromkeys(who)))
            for i, who in sorted(sources.items())
            if i not in not_ends or i in self._extra_ends
        )

    @property
    def end_ids(self) -> tuple[int, ...]:
        """The ids of `ends`."""
        return tuple(end.id for end in self.ends)

    @cached_property
    def looks_like_end(self) -> tuple[AddedToken, ...]:
        """Added tokens that look like an end of turn but do not end this model's; generation never stops at them."""
        ends = set(self.end_ids)
        return tuple(t for t in self.added.values() if t.id not in ends and _LOOKS_LIKE_END.search(t.text))

    def add_end(self, token: str | int) -> SpecialTokens:
        """Return a registry in which this added token also ends a turn; raises `TokenizerError` for other tokens."""
        token_id = self.id_of(token) if isinstance(token, str) else token
        if type(token_id) is not int or token_id not in self.added:
            raise TokenizerError(
                f"{shown(token)} is not an added token",
                place="ends",
                hint="pass ordinary text as a stop sequence instead",
            )
        return SpecialTokens(self.facts, family=self.family, extra_ends=(*self._extra_ends, token_id))

    # -- identity

    @cached_property
    def fingerprint(self) -> str:
        """A short hash of everything that plans depend on: the added tokens and the vocabulary sizes."""
        digest = hashlib.sha256(repr((self.facts.vocab_size, self.vocab_size)).encode())
        for token in self.added.values():
            digest.update(f"{token.id}\0{token.text}\0{token.is_marker}\n".encode())
        return digest.hexdigest()[:16]
