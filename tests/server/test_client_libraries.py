"""Libraries over OpenAI's interfaces: LangChain and the agents SDK, by completions and by responses."""

from __future__ import annotations

import asyncio
import importlib
from typing import TYPE_CHECKING, Any

import httpx
import openai
import pytest
from pydantic import BaseModel

if TYPE_CHECKING:
    from service_harness import Doors

REASON = "needs the development dependency {}"
QUESTION = "How many passengers?"
SOURCES = ["ferry.pdf, part of page 2"]


class SourcedAnswer(BaseModel):
    """An answer and its sources."""

    answer: str
    sources: list[str]


@pytest.mark.parametrize("by_responses", [False, True])
class TestLangChain:
    def model(self, address: str, by_responses: bool) -> Any:  # noqa: ANN401
        module = "langchain_openai"
        library: Any = pytest.importorskip(module, reason=REASON.format("langchain-openai"))
        return library.ChatOpenAI(
            model="vrag",
            base_url=f"{address}/v1",
            api_key="none",
            max_retries=0,
            use_responses_api=by_responses,
        )

    def test_it_asks_and_streams(self, served: Doors, by_responses: bool) -> None:
        model = self.model(served.address, by_responses)
        assert str(model.invoke(QUESTION).text).startswith("48,200 [1]")
        assert "".join(str(chunk.text) for chunk in model.stream(QUESTION)).startswith("48,200 [1]")

    def test_its_tools_change_nothing(self, served: Doors, by_responses: bool) -> None:
        tool = {
            "title": "add",
            "description": "Adds.",
            "type": "object",
            "properties": {"a": {"type": "integer"}},
        }
        message = self.model(served.address, by_responses).bind_tools([tool]).invoke(QUESTION)
        assert str(message.text).startswith("48,200 [1]")
        assert message.tool_calls == []

    @pytest.mark.parametrize("method", ["json_schema", "function_calling"])
    def test_its_structured_output_is_the_answer(
        self,
        served: Doors,
        by_responses: bool,
        method: str,
    ) -> None:
        model = self.model(served.address, by_responses)
        answer = model.with_structured_output(SourcedAnswer, method=method).invoke(QUESTION)
        assert answer == SourcedAnswer(answer="48,200", sources=SOURCES)


@pytest.mark.parametrize("kind", ["OpenAIResponsesModel", "OpenAIChatCompletionsModel"])
class TestAgentsSdk:
    def run(self, served: Doors, kind: str, work: Any, **options: Any) -> Any:  # noqa: ANN401
        """Let an agent with a tool do some work."""
        pytest.importorskip("agents", reason=REASON.format("openai-agents"))
        sdk: Any = importlib.import_module("agents")
        sdk.set_tracing_disabled(disabled=True)

        def get_weather(city: str) -> str:
            """Returns the weather of a city."""
            raise AssertionError(city)

        async def ask() -> Any:  # noqa: ANN401
            address = f"{served.address}/v1"
            async with openai.AsyncOpenAI(base_url=address, api_key="none", max_retries=0) as client:
                tools = [sdk.function_tool(get_weather)]
                model = getattr(sdk, kind)("vrag", client)
                agent = sdk.Agent(name="a", instructions="Be short.", model=model, tools=tools, **options)
                return await work(sdk, agent)

        return asyncio.run(ask())

    def test_it_asks_and_asks_again(self, served: Doors, kind: str) -> None:
        async def ask(sdk: Any, agent: Any) -> list[str]:  # noqa: ANN401
            first = await sdk.Runner.run(agent, QUESTION)
            turns = [*first.to_input_list(), {"role": "user", "content": "And cars?"}]
            second = await sdk.Runner.run(agent, turns)
            return [first.final_output, second.final_output]

        assert all(text.startswith("48,200 [1]") for text in self.run(served, kind, ask))
        run = httpx.get(f"{served.address}/runs").json()["runs"][0]
        started = served.answering.store.read(run["id"]).started
        assert [(turn.question, turn.answer) for turn in started.history] == [(QUESTION, "48,200")]

    def test_it_streams(self, served: Doors, kind: str) -> None:
        async def ask(sdk: Any, agent: Any) -> str:  # noqa: ANN401
            streamed = sdk.Runner.run_streamed(agent, QUESTION)
            assert [event async for event in streamed.stream_events()]
            return streamed.final_output

        assert self.run(served, kind, ask).startswith("48,200 [1]")

    def test_its_output_type_is_filled(self, served: Doors, kind: str) -> None:
        async def ask(sdk: Any, agent: Any) -> Any:  # noqa: ANN401
            return (await sdk.Runner.run(agent, QUESTION)).final_output

        output = self.run(served, kind, ask, output_type=SourcedAnswer)
        assert output == SourcedAnswer(answer="48,200", sources=SOURCES)
