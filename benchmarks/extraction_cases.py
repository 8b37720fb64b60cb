"""Texts with the object that each one states, made from a seed: nothing here asks a model.

    from benchmarks.extraction_cases import extraction_cases, is_right, right_leaves

    for case in extraction_cases(100):            # ten kinds in turn: case.kind, case.text, case.schema, case.gold
        value = guide.chat(case.prompt, response_format=case.schema).parsed
        print(case.id, is_right(case, value))

The first ``n`` cases are the same for every ``n``; another seed gives other cases.  A text states each value once and
in plain words; strings are copied from it, dates become ``YYYY-MM-DD``, a missing value is null.  Sentences around them
state other numbers and names, which are not asked for.
"""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

__all__ = ["KINDS", "ExtractionCase", "extraction_cases", "is_right", "leaves", "right_leaves"]

Made = tuple[str, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class ExtractionCase:
    """One text, the JSON schema of what is asked for, and the object that the text states."""

    id: str
    kind: str
    text: str
    schema: dict[str, Any]
    gold: dict[str, Any]

    @property
    def prompt(self) -> str:
        """The message of the user."""
        return f"Extract the {self.kind.replace('_', ' ')} from this text:\n\n{self.text}"


# ---------------------------------------------------------------- parts of schemas and texts

TEXT: dict[str, Any] = {"type": "string"}
COUNT: dict[str, Any] = {"type": "integer", "minimum": 0}
AMOUNT: dict[str, Any] = {"type": "number", "minimum": 0}
DATE: dict[str, Any] = {"type": "string", "format": "date"}
YES_NO: dict[str, Any] = {"type": "boolean"}

FIRST = [
    "Alice",
    "Bruno",
    "Chiara",
    "David",
    "Elena",
    "Farid",
    "Grace",
    "Hugo",
    "Ingrid",
    "Jonas",
    "Kavya",
    "Liam",
    "Mina",
    "Noah",
    "Olga",
    "Pablo",
]
LAST = [
    "Moreau",
    "Silva",
    "Okafor",
    "Lindqvist",
    "Tanaka",
    "Novak",
    "Haddad",
    "Keller",
    "Rossi",
    "Dubois",
    "Ivanov",
    "Mensah",
]
COMPANIES = ["Northwind", "Acme", "Bluefield", "Sunrise", "Redwood", "Granite", "Harbour", "Summit"]
CITIES = ["Lisbon", "Oslo", "Vienna", "Kyoto", "Toronto", "Nairobi", "Madrid", "Prague", "Seoul", "Denver"]


def listing(items: dict[str, Any], least: int = 1) -> dict[str, Any]:
    return {"type": "array", "items": items, "minItems": least, "maxItems": 6}


def choice(*values: str) -> dict[str, Any]:
    return {"type": "string", "enum": list(values)}


def optional(schema: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "null"}]}


def closed(**properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def date_of(chance: random.Random) -> tuple[str, str]:
    """Return a date in words and as ISO 8601."""
    day = datetime.date(2021, 1, 1) + datetime.timedelta(days=chance.randrange(2000))
    words = chance.choice([f"{day.day} {day:%B} {day.year}", f"{day:%B} {day.day}, {day.year}", day.isoformat()])
    return words, day.isoformat()


def name_of(chance: random.Random) -> str:
    return f"{chance.choice(FIRST)} {chance.choice(LAST)}"


def price_of(chance: random.Random, least: int, most: int) -> float:
    return chance.randrange(least * 20, most * 20) / 20


def and_list(items: list[str]) -> str:
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


# ---------------------------------------------------------------- the kinds


def person(chance: random.Random) -> Made:
    name, age, city = name_of(chance), chance.randrange(19, 80), chance.choice(CITIES)
    job = chance.choice(["nurse", "pilot", "teacher", "chemist", "carpenter", "translator"])
    languages = chance.sample(["English", "French", "Arabic", "Korean", "German", "Swahili"], chance.randint(1, 3))
    text = chance.choice(
        [
            f"{name} is {age} years old and works as a {job} in {city}. At home they speak {and_list(languages)}.",
            f"Meet our {job}, {name}, {age}, from {city}, who speaks {and_list(languages)}.",
        ]
    )
    return text, {"name": name, "age": age, "city": city, "job": job, "languages": languages}


def invoice(chance: random.Random) -> Made:
    number, company = f"{chance.choice('ABC')}-{chance.randrange(1000, 9999)}", chance.choice(COMPANIES)
    words, date = date_of(chance)
    goods = chance.sample(["desk", "lamp", "chair", "monitor", "keyboard", "shelf"], chance.randint(1, 3))
    items = [
        {"name": good, "quantity": chance.randint(1, 9), "unit_price": price_of(chance, 10, 300)} for good in goods
    ]
    total = round(sum(item["quantity"] * item["unit_price"] for item in items), 2)
    currency = chance.choice(["USD", "EUR", "GBP"])
    lines = "; ".join(f"{i['quantity']} x {i['name']} at {i['unit_price']:.2f} each" for i in items)
    text = (
        f"Invoice {number} from {company}, issued on {words}. Items: {lines}. "
        f"The total is {total:.2f} {currency}, payable within 30 days."
    )
    gold = {"number": number, "seller": company, "date": date, "items": items, "total": total, "currency": currency}
    return text, gold


def event(chance: random.Random) -> Made:
    title = chance.choice(["Jazz Night", "Open Day", "Python Meetup", "Wine Fair", "Book Swap", "City Run"])
    words, date = date_of(chance)
    hour, city, free = chance.randrange(8, 21), chance.choice(CITIES), chance.random() < 0.5
    start = f"{hour:02d}:{chance.choice(['00', '15', '30'])}"
    price = None if free else float(chance.randrange(5, 60))
    entry = "Admission is free" if free else f"Tickets cost {price:.0f} euros"
    text = f"{title} takes place in {city} on {words}; doors open at {start}. {entry}. Last year 340 people came."
    return text, {"title": title, "city": city, "date": date, "start": start, "ticket_price": price}


def order(chance: random.Random) -> Made:
    name, number = name_of(chance), chance.randrange(10000, 99999)
    sorts = chance.sample(["margherita", "calzone", "lasagne", "tiramisu", "salad"], chance.randint(1, 3))
    dishes = [{"dish": sort, "count": chance.randint(1, 4)} for sort in sorts]
    delivery = chance.choice(["pickup", "delivery"])
    way = "will pick it up" if delivery == "pickup" else "wants it delivered"
    size = chance.choice(["small", "medium", "large"])
    wished = and_list([f"{d['count']} {d['dish']}" for d in dishes])
    text = f"Order {number}: {name} asks for {wished}, all in {size} size, and {way}."
    return text, {"order_id": number, "customer": name, "dishes": dishes, "size": size, "method": delivery}


def job_offer(chance: random.Random) -> Made:
    title = chance.choice(["data engineer", "sales manager", "graphic designer", "site reliability engineer"])
    company, city = chance.choice(COMPANIES), chance.choice(CITIES)
    low = chance.randrange(30, 80) * 1000
    high = low + chance.randrange(5, 30) * 1000
    skills = chance.sample(["SQL", "Python", "Excel", "Figma", "Kubernetes", "negotiation"], chance.randint(2, 3))
    remote, years = chance.random() < 0.5, chance.randint(1, 9)
    place = "remotely" if remote else f"in the office in {city}"
    text = (
        f"{company} is hiring a {title} who works {place}. You bring {years} years of experience and know "
        f"{and_list(skills)}. The salary is between {low} and {high} dollars a year."
    )
    gold = {"title": title, "company": company, "remote": remote, "years_of_experience": years, "skills": skills,
            "salary": {"min": low, "max": high}}  # fmt: skip
    return text, gold


def weather_report(chance: random.Random) -> Made:
    city, (words, date) = chance.choice(CITIES), date_of(chance)
    low = chance.randrange(-12, 15)
    high, wind = low + chance.randrange(3, 12), chance.randrange(5, 70)
    sky = chance.choice(["sunny", "cloudy", "rain", "snow"])
    skies = {"sunny": "sunny skies", "cloudy": "a cloudy sky", "rain": "rain", "snow": "snow"}
    text = (
        f"Forecast for {city}, {words}: {skies[sky]}, with a low of {low} and a high of {high} degrees Celsius. "
        f"The wind reaches {wind} km/h."
    )
    return text, {"city": city, "date": date, "sky": sky, "low": low, "high": high, "wind_kmh": wind}


def flight(chance: random.Random) -> Made:
    number = f"{chance.choice(['LH', 'AF', 'KL', 'BA'])}{chance.randrange(100, 999)}"
    start, end = chance.sample(CITIES, 2)
    words, date = date_of(chance)
    gate = chance.choice([None, f"{chance.choice('ABCD')}{chance.randrange(1, 40)}"])
    status = chance.choice(["on time", "delayed", "cancelled"])
    where = f" It leaves from gate {gate}." if gate else " The gate is not known yet."
    text = f"Flight {number} from {start} to {end} on {words} is {status}.{where}"
    return text, {"flight": number, "from": start, "to": end, "date": date, "gate": gate, "status": status}


def review(chance: random.Random) -> Made:
    book = chance.choice(["The Salt Road", "Quiet Rivers", "Nine Lanterns", "A Winter Map"])
    author, stars = name_of(chance), chance.randint(1, 5)
    liked = chance.sample(["the characters", "the ending", "the language", "the maps"], chance.randint(0, 2))
    mood = "negative" if stars <= 2 else "neutral" if stars == 3 else "positive"
    praise = f" I liked {and_list(liked)}." if liked else " There was nothing that I liked."
    word = {"negative": "A negative", "neutral": "A neutral", "positive": "A positive"}[mood]
    text = f"I read {book} by {author} in two weeks. {stars} out of 5 stars.{praise} {word} review from me."
    return text, {"title": book, "author": author, "stars": stars, "liked": liked, "sentiment": mood}


def ticket(chance: random.Random) -> Made:
    name, number = name_of(chance), chance.randrange(100, 9999)
    topic = chance.choice(["billing", "login", "shipping", "refund"])
    priority = chance.choice(["low", "medium", "high"])
    mail = f"{name.split()[0].lower()}.{name.split()[1].lower()}@example.com"
    answered = chance.random() < 0.5
    text = (
        f"Ticket #{number} was opened by {name} ({mail}). It is about {topic} and has {priority} priority. "
        f"{'We have answered it already.' if answered else 'Nobody has answered it yet.'}"
    )
    gold = {"id": number, "customer": {"name": name, "email": mail}, "topic": topic, "priority": priority,
            "answered": answered}  # fmt: skip
    return text, gold


def match_result(chance: random.Random) -> Made:
    home, away = chance.sample(CITIES, 2)
    words, date = date_of(chance)
    scorers = [
        {"player": name_of(chance), "minute": minute}
        for minute in sorted(chance.sample(range(2, 90), chance.randint(1, 3)))
    ]
    goals = len(scorers)
    told = and_list([f"{scorer['player']} in minute {scorer['minute']}" for scorer in scorers])
    text = f"{home} beat {away} {goals} to 0 on {words}. The goals: {told}. 21000 people watched."
    return text, {"home": home, "away": away, "date": date, "score": [goals, 0], "goals": scorers}


_PERSON = closed(name=TEXT, age=COUNT, city=TEXT, job=TEXT, languages=listing(TEXT))
_INVOICE = closed(
    number=TEXT,
    seller=TEXT,
    date=DATE,
    items=listing(closed(name=TEXT, quantity=COUNT, unit_price=AMOUNT)),
    total=AMOUNT,
    currency=choice("USD", "EUR", "GBP"),
)
_EVENT = closed(
    title=TEXT,
    city=TEXT,
    date=DATE,
    start={"type": "string", "pattern": "^[0-2][0-9]:[0-5][0-9]$"},
    ticket_price=optional(AMOUNT),
)
_ORDER = closed(
    order_id=COUNT,
    customer=TEXT,
    dishes=listing(closed(dish=TEXT, count=COUNT)),
    size=choice("small", "medium", "large"),
    method=choice("pickup", "delivery"),
)
_JOB = closed(
    title=TEXT,
    company=TEXT,
    remote=YES_NO,
    years_of_experience=COUNT,
    skills=listing(TEXT),
    salary=closed(min=COUNT, max=COUNT),
)
_DEGREES = {"type": "integer", "minimum": -90, "maximum": 60}
_WEATHER = closed(
    city=TEXT, date=DATE, sky=choice("sunny", "cloudy", "rain", "snow"), low=_DEGREES, high=_DEGREES, wind_kmh=COUNT
)
_FLIGHT = closed(
    flight={"type": "string", "pattern": "^[A-Z]{2}[0-9]{3}$"},
    **{"from": TEXT, "to": TEXT, "date": DATE},
    gate=optional(TEXT),
    status=choice("on time", "delayed", "cancelled"),
)
_REVIEW = closed(
    title=TEXT,
    author=TEXT,
    stars={"type": "integer", "minimum": 1, "maximum": 5},
    liked=listing(TEXT, 0),
    sentiment=choice("negative", "neutral", "positive"),
)
_TICKET = closed(
    id=COUNT,
    customer=closed(name=TEXT, email={"type": "string", "format": "email"}),
    topic=choice("billing", "login", "shipping", "refund"),
    priority=choice("low", "medium", "high"),
    answered=YES_NO,
)
_MATCH = closed(
    home=TEXT,
    away=TEXT,
    date=DATE,
    score={"type": "array", "items": COUNT, "minItems": 2, "maxItems": 2},
    goals=listing(closed(player=TEXT, minute={"type": "integer", "minimum": 1, "maximum": 120}), 0),
)

#: Kind -> the schema of its objects and what makes one text with its object.
KINDS: dict[str, tuple[dict[str, Any], Callable[[random.Random], Made]]] = {
    "person": (_PERSON, person),
    "invoice": (_INVOICE, invoice),
    "event": (_EVENT, event),
    "order": (_ORDER, order),
    "job_offer": (_JOB, job_offer),
    "weather_report": (_WEATHER, weather_report),
    "flight": (_FLIGHT, flight),
    "book_review": (_REVIEW, review),
    "support_ticket": (_TICKET, ticket),
    "match_result": (_MATCH, match_result),
}


def extraction_cases(count: int = 100, *, seed: int = 0) -> list[ExtractionCase]:
    """Return the first ``count`` cases of ``seed``, the kinds in turn."""
    kinds, cases = list(KINDS), []
    for at in range(count):
        kind = kinds[at % len(kinds)]
        schema, make = KINDS[kind]
        chance = random.Random(f"{seed} {kind} {at}")  # of its own: no case moves another
        text, gold = make(chance)
        asked = set(chance.sample(list(gold), chance.randint(2, len(gold))))
        properties = {key: sub for key, sub in schema["properties"].items() if key in asked}
        gold = {key: value for key, value in gold.items() if key in asked}
        cases.append(ExtractionCase(f"{kind}_{at}", kind, text, closed(**properties), gold))
    return cases


# ---------------------------------------------------------------- the judge


def leaves(value: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the scalars of a JSON value with their places; an empty list or object is one of them."""
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from leaves(item, f"{place}/{key}")
    elif isinstance(value, list) and value:
        for at, item in enumerate(value):
            yield from leaves(item, f"{place}/{at}")
    else:
        yield place, (type(value) is bool, value)  # True is 1 for Python, not for JSON


def right_leaves(case: ExtractionCase, value: Any) -> tuple[int, int]:
    """Return how many scalars of the gold object ``value`` has at their places, and how many there are."""
    gold, found = dict(leaves(case.gold)), dict(leaves(value))
    return sum(place in found and found[place] == right for place, right in gold.items()), len(gold)


def is_right(case: ExtractionCase, value: Any) -> bool:
    """Whether ``value`` is the gold object: the same JSON, whatever the order of keys; 2.0 is 2, true is not 1."""
    return dict(leaves(value)) == dict(leaves(case.gold))
