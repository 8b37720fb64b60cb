"""Several questions at once in an event loop.  You will see the answers, and one that is streamed."""

import asyncio

import guided

guide = guided.demo()


async def ask(thing: str) -> str:
    message = await guide.achat(f"Is {thing} blue?", response_format=["yes", "no"], temperature=0)
    return f"{thing}: {message.parsed}"


async def main() -> None:
    for answer in await asyncio.gather(*map(ask, ("grass", "the sky", "blood"))):  # one after the other in one thread
        print(answer)
    async for event in guide.astream("Say hello.", temperature=0, max_tokens=8):
        print(repr(event.text))


asyncio.run(main())
