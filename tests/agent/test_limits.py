"""What a run may spend: prices by hand, and budgets that end a run without an error."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from agent_scripts import (
    PROFILE,
    VRAG,
    WAYS,
    Watching,
    Way,
    environment,
    memorizes,
    note,
    of,
    searches,
    way_name,
)
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from vrag.agent.agent import Agent
from vrag.agent.budget import Limits, Prices, Spending
from vrag.agent.events import AnswerGiven, ModelCalled, StopReason, UsageReported
from vrag.agent.policy import Delta, Reply, Tokens
from vrag.agent.runs.run_result import RunResult

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from vrag.agent.events import Event
    from vrag.agent.policy import Message, Retry

both = pytest.mark.parametrize("way", WAYS, ids=way_name)
PRICES = Prices(prompt=2.0, completion=8.0, cached=0.5)


# Prices


@pytest.mark.parametrize(
    ("prompt", "completion", "cached", "cost"),
    [
        (1_000_000, 0, None, 2.0),
        (0, 1_000_000, None, 8.0),
        (500_000, 1_000, None, 1.008),
        (1_000, 100, 400, (600 * 2 + 400 * 0.5 + 100 * 8) / 1e6),
        (1_000, 0, 5_000, 1_000 * 0.5 / 1e6),  # no more can be cached than there is
        (0, 0, 0, 0.0),
    ],
)
def test_a_call_costs_what_its_tokens_cost(
    prompt: int, completion: int, cached: int | None, cost: float
) -> None:
    assert PRICES.cost(prompt, completion, cached) == pytest.approx(cost)


def test_cached_tokens_cost_as_much_as_others_where_they_have_no_price() -> None:
    assert Prices(prompt=2.0, completion=8.0).cost(1_000, 0, 1_000) == pytest.approx(0.002)


@pytest.mark.parametrize("prices", [Prices(), Prices(prompt=1.0), Prices(completion=1.0)])
def test_without_both_prices_there_is_no_cost(prices: Prices) -> None:
    assert prices.cost(10, 10) is None


@pytest.mark.parametrize(("prompt", "completion"), [(None, 1), (1, None)])
def test_without_counts_there_is_no_cost(prompt: int | None, completion: int | None) -> None:
    assert PRICES.cost(prompt, completion) is None


@pytest.mark.parametrize(
    "wrong", [{"steps": 0}, {"tokens": 0}, {"seconds": 0}, {"cost": -1.0}, {"visual_tokens": 0}, {"step": 3}]
)
def test_limits_that_let_nothing_through_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValidationError):
        Limits.model_validate(wrong)


@given(
    st.lists(st.tuples(st.integers(0, 500), st.integers(0, 2000)), max_size=8),
    st.integers(1, 2000),
    st.integers(1, 5000),
)
def test_visual_tokens_never_exceed_their_limit_and_others_by_one_call_at_most(
    calls: list[tuple[int, int]], most: int, most_visual: int
) -> None:
    limits, spent = Limits(tokens=most, visual_tokens=most_visual), Spending()
    for tokens, visual in calls:
        if spent.allows(limits, visual):
            assert spent.tokens < most
            spent.add(tokens=tokens, visual_tokens=visual, cost=0.0)
    assert spent.visual_tokens <= most_visual


# Runs


@dataclass
class Counting:
    """Says how many tokens each call took: 100 more in the prompt with every call, 20 in the reply."""

    replies: Sequence[str]
    cached: int | None = None
    name: str = "counting"
    sampling: dict[str, float | int | str | bool] = field(
        default_factory=dict[str, "float | int | str | bool"]
    )

    async def reply(
        self, history: Sequence[Message], turn: int = 1
    ) -> AsyncGenerator[Delta | Retry | Reply, None]:
        tokens = Tokens(prompt=100 * turn, completion=20, cached=self.cached)
        yield Reply(self.replies[turn - 1], tokens=tokens)

    async def aclose(self) -> None:
        pass


def script(way: Way) -> tuple[str, ...]:
    """Three searches that each show pictures, and an answer."""
    if way is VRAG:
        return way.search("ferry passengers"), way.search("report"), way.search("prices"), way.answer("9")
    first = memorizes(note("Text 1", 0), note("Picture 1", 5), note("Picture 2", 5))
    return (
        searches("a", "ferry passengers"),
        first,
        searches("b", "report annual"),
        memorizes(note("Picture 1", 5)),
        searches("c", "prices"),
        way.answer("9"),
    )


def spent(
    way: Way, limits: Limits, prices: Prices | None = None, *, cached: int | None = None
) -> list[Event]:
    policy = Counting(script(way), cached)
    return list(Agent(policy, environment(), way.method, limits, prices or Prices()).stream("?"))


def stop_of(events: Sequence[Event]) -> StopReason:
    assert isinstance(events[-1], AnswerGiven), events[-1]
    return events[-1].stop_reason


@both
def test_a_budget_of_tokens_ends_a_run_cleanly_after_the_call_that_used_it_up(way: Way) -> None:
    """Calls take 120, 220 and 320 tokens."""
    calls = {most: len(of(ModelCalled, spent(way, Limits(tokens=most)))) for most in (1, 120, 121, 340, 341)}
    assert calls == {1: 1, 120: 1, 121: 2, 340: 2, 341: 3}
    events = spent(way, Limits(tokens=121))
    assert stop_of(events) is StopReason.OUT_OF_BUDGET
    assert RunResult.of(events).failure is None
    assert isinstance(events[-1], AnswerGiven)
    assert events[-1].evidence  # where it looked


@both
def test_cost_is_told_of_each_step_and_of_the_run_and_ends_it(way: Way) -> None:
    events = spent(way, Limits(), PRICES, cached=50)
    costs = [usage.cost for usage in of(UsageReported, events)]
    by_hand = [((100 * n - 50) * 2 + 50 * 0.5 + 20 * 8) / 1e6 for n in range(1, len(costs) + 1)]
    assert costs == pytest.approx(by_hand)
    usage = RunResult.of(events).usage
    assert usage.cost == pytest.approx(sum(by_hand))
    assert (usage.completion_tokens, usage.cached_tokens) == (20 * len(costs), 50 * len(costs))
    ended = spent(way, Limits(cost=by_hand[0] + by_hand[1] / 2), PRICES, cached=50)
    assert stop_of(ended) is StopReason.OUT_OF_BUDGET
    assert len(of(ModelCalled, ended)) == 2


@both
def test_visual_tokens_are_those_of_the_pictures_in_the_prompt(way: Way) -> None:
    policy = Watching(script(way))
    events = list(Agent(policy, environment(), way.method).stream("?"))
    told = [
        sum(PROFILE.visual_tokens(p.view.canvas) for p in policy.pictures(n)) for n in range(len(policy.told))
    ]
    pixels = [
        sum(p.image.width * p.image.height for p in policy.pictures(n)) for n in range(len(policy.told))
    ]
    assert [usage.visual_tokens for usage in of(UsageReported, events)] == told
    assert [usage.pixels for usage in of(UsageReported, events)] == pixels
    assert max(told) > 0


@both
def test_a_budget_of_visual_tokens_is_never_exceeded(way: Way) -> None:
    """At limits where another call just fits, and one below."""
    whole = [usage.visual_tokens for usage in of(UsageReported, spent(way, Limits()))]
    sums = [sum(whole[:number]) for number in range(1, len(whole) + 1)]
    for most in sorted({limit for one in (sums[1], sums[-1]) for limit in (one, one - 1) if limit > 0}):
        events = spent(way, Limits(visual_tokens=most))
        used = sum(usage.visual_tokens for usage in of(UsageReported, events))
        assert used <= most
        assert used == max((one for one in sums if one <= most), default=0)
        enough = most >= sums[-1]
        assert stop_of(events) is (StopReason.ANSWERED if enough else StopReason.OUT_OF_BUDGET)


@both
def test_unknown_counts_are_no_zeros(way: Way) -> None:
    events = list(Agent(Watching(way.script()), environment(), way.method, prices=PRICES).stream("?"))
    usage = RunResult.of(events).usage
    assert (usage.prompt_tokens, usage.completion_tokens, usage.cost) == (None, None, None)
    assert usage.seconds >= usage.model_seconds > 0
