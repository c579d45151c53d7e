"""How many requests of an enrichment are under way, and in which order their answers are dealt with."""

from __future__ import annotations

import asyncio
import time

from ipy_websearch.enrichment.schedule import Gate, Turns


def test_a_retry_after_holds_for_all_rows() -> None:
    """While the floor lasts and nothing succeeds, nobody is admitted, whoever asks."""

    async def run() -> tuple[bool, float]:
        gate = Gate(10)
        ticket = await gate.enter()
        gate.refused(ticket, 0.15)
        start = time.monotonic()
        waiting = [asyncio.create_task(gate.enter(again=n == 0)) for n in range(3)]
        await asyncio.sleep(0.05)
        early = any(task.done() for task in waiting)
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        waited = time.monotonic() - start
        for task in waiting:
            task.cancel()
        return early, waited

    early, waited = asyncio.run(run())
    assert not early and waited >= 0.14


def test_requests_that_are_sent_again_go_first_and_in_their_order() -> None:
    """The one that was refused first is the next one: none waits for ever while others are refused and sent again."""

    async def run() -> list[str]:
        gate, done = Gate(1), list[str]()
        ticket = await gate.enter()

        async def slot(name: str, again: bool) -> None:
            mine = await gate.enter(again=again)
            done.append(name)
            gate.leave(mine)

        waiting = [asyncio.create_task(slot(*which)) for which in (("new", False), ("first", True), ("second", True))]
        await asyncio.sleep(0)
        gate.leave(ticket)
        await asyncio.wait(waiting, timeout=5)
        return done

    assert asyncio.run(run()) == ["first", "second", "new"]


def test_one_scout_goes_first_when_a_request_succeeds_during_the_floor() -> None:
    """Three successes during a floor let one request in; when that succeeds, the others may follow."""

    async def run() -> list[int]:
        gate = Gate(10)
        taken = [await gate.enter() for _ in range(4)]
        gate.refused(taken.pop(), 30.0)
        waiting = [asyncio.create_task(gate.enter()) for _ in range(5)]
        for ticket in taken:
            gate.succeeded(ticket)
        await asyncio.sleep(0.01)
        scouts = [task for task in waiting if task.done()]
        gate.succeeded(scouts[0].result())
        await asyncio.sleep(0.01)
        after = sum(task.done() for task in waiting)
        for task in waiting:
            task.cancel()
        return [len(scouts), after]

    assert asyncio.run(run()) == [1, 4]


def test_refusals_halve_the_limit_at_most_and_successes_raise_it() -> None:
    """A burst of refusals is one cut; afterwards the limit grows again."""

    async def run() -> list[float]:
        gate = Gate(100)
        taken = [await gate.enter() for _ in range(100)]
        for ticket in taken[10:]:
            gate.refused(ticket, 0.001)
        cut = gate.limit
        for ticket in taken[:10]:
            gate.succeeded(ticket)
        await asyncio.sleep(0.01)

        async def slot() -> None:
            for _ in range(200):
                ticket = await gate.enter()
                await asyncio.sleep(0)
                gate.succeeded(ticket)

        await asyncio.gather(*(slot() for _ in range(100)))
        return [cut, gate.limit]

    assert asyncio.run(run()) == [50.0, 100.0]


def test_after_a_floor_as_many_run_as_ran_during_it() -> None:
    """Twenty of a hundred were taken, and twenty are kept going: the end of the floor lets no burst go."""

    async def run() -> tuple[int, float]:
        gate = Gate(100)
        taken = [await gate.enter() for _ in range(100)]
        for ticket in taken[20:]:
            gate.refused(ticket, 0.05)
        waiting = [asyncio.create_task(gate.enter()) for _ in range(100)]
        await asyncio.sleep(0)
        gate.succeeded(taken[0])  # the scout may go
        await asyncio.sleep(0)
        for ticket in taken[1:20]:
            gate.succeeded(ticket)
        await asyncio.sleep(0)
        gate.succeeded(next(task for task in waiting if task.done()).result())
        await asyncio.sleep(0.01)
        during = gate.in_flight
        await asyncio.sleep(0.1)
        for task in waiting:
            task.cancel()
        return during, gate.limit

    assert asyncio.run(run()) == (20, 20.0)


def test_a_refusal_after_the_end_of_its_floor_says_nothing_against_the_floor_itself() -> None:
    """Requests let in during a floor and refused after it may have lost their places to others: it stays a crowd."""

    async def run() -> int:
        gate = Gate(10)
        taken = [await gate.enter() for _ in range(10)]
        gate.refused(taken.pop(), 0.03)
        gate.succeeded(taken.pop())
        gate.succeeded(await gate.enter())  # the scout was taken: it is a crowd
        for _ in range(4):
            gate.succeeded(taken.pop())
        late = [await gate.enter() for _ in range(4)]
        await asyncio.sleep(0.06)
        for ticket in late:
            gate.refused(ticket, 30.0)
        before = gate.in_flight
        gate.succeeded(taken.pop())
        waiting = asyncio.create_task(gate.enter())
        await asyncio.sleep(0.01)
        waiting.cancel()
        return gate.in_flight - before

    assert asyncio.run(run()) == 0


def test_answers_that_come_together_are_dealt_with_in_turn() -> None:
    """What the first one's turn has left to the loop is done before the third one's turn."""

    async def run() -> list[str]:
        turns, done = Turns(1), list[str]()

        async def slot(name: str) -> None:
            await turns.take()
            done.append(name)
            asyncio.get_running_loop().call_soon(done.append, name.upper())

        await asyncio.gather(*map(slot, "abcd"))
        await asyncio.sleep(0)
        return done

    done = asyncio.run(run())
    assert [name for name in done if name.islower()] == list("abcd")
    assert all(done.index(name.upper()) < done.index(later) for name, later in ("ac", "bd"))


def test_a_round_of_the_loop_has_no_more_turns_than_it_may_have() -> None:
    """Two in a round: five tasks take three rounds."""

    async def run() -> list[int]:
        turns, rounds, now = Turns(2), list[int](), [0]

        def count() -> None:
            now[0] += 1
            asyncio.get_running_loop().call_soon(count)

        async def slot() -> None:
            await turns.take()
            rounds.append(now[0])

        asyncio.get_running_loop().call_soon(count)
        await asyncio.gather(*(slot() for _ in range(5)))
        return [rounds.count(number) for number in dict.fromkeys(rounds)]

    assert asyncio.run(run()) == [2, 2, 1]


def test_who_is_cancelled_while_waiting_for_a_turn_keeps_what_it_has_and_ends_where_it_waits_next() -> None:
    """An answer that has come is paid for: it is put away before its task ends."""

    async def run() -> tuple[list[str], bool]:
        turns, kept = Turns(1), list[str]()

        async def slot(name: str) -> None:
            await turns.take()
            kept.append(name)
            await asyncio.sleep(60)

        tasks = [asyncio.create_task(slot(name)) for name in "abc"]
        await asyncio.sleep(0)
        tasks[2].cancel()
        await asyncio.wait([tasks[2]], timeout=5)
        for task in tasks[:2]:
            task.cancel()
        await asyncio.wait(tasks, timeout=5)
        return sorted(kept), all(task.cancelled() for task in tasks)

    assert asyncio.run(run()) == (["a", "b", "c"], True)
