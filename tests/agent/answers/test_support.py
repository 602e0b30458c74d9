"""The parts of an answer rest on what the model cites, narrowed to the words, or on where these stand."""

from __future__ import annotations

import pytest
from agent_scripts import PROFILE, VRAG, Watching, answers, memorizes, note, searches

from vrag.agent.agent import Agent
from vrag.agent.answers.answer_place import LARGE
from vrag.agent.answers.verification import VerifyMode
from vrag.agent.environment import Environment, EnvironmentOptions
from vrag.agent.events import AnswerGiven
from vrag.agent.method import Method
from vrag.agent.methods.baselines import Rag, React
from vrag.agent.methods.vimrag import Vimrag
from vrag.agent.methods.vrag import VragMethod
from vrag.agent.runs.run_result import RunResult
from vrag.geometry import Box
from vrag.reading.verification.claim import ClaimVerdict
from vrag.testing import MemorySearcher, page, passage

PRICES = page(
    "prices.pdf",
    1,
    "Fares of the Lantern Ferry\n\nA return ticket for adults costs 12 crowns in summer."
    + "\n" * 12
    + "Dogs travel for 4 crowns and stay on deck.",
)
WINTER = page(
    "winter.pdf",
    1,
    "Ferry winter service\n\nThe ferry does not run in January because of ice in the harbour.",
)
NOTES = passage("notes.md", 1, "The ferry was painted green by the harbour company in 1987.")
CORPUS = MemorySearcher((PRICES, WINTER, NOTES))
LONG = (
    "A return ticket for adults costs 12 crowns. Dogs travel for 4 crowns. "
    "In January it does not run because of ice in the harbour."
)


def asked(answer: str, **options: int) -> RunResult:
    policy = Watching((VRAG.search("ferry"), VRAG.answer(answer)))
    environment = Environment(CORPUS, PROFILE, EnvironmentOptions.model_validate({"show": 3} | options))
    run = Agent(policy, environment, VragMethod()).run("What does the ferry cost and when does it run?")
    assert isinstance(run.end, AnswerGiven)
    return run


def places(run: RunResult) -> dict[str, list[str]]:
    """The documents that each part of an answer cites."""
    assert run.answer is not None
    return {
        run.answer[citation.start : citation.end]: [
            run.evidence[number - 1].document for number in citation.numbers
        ]
        for citation in run.citations
    }


class TestOfAModelThatCites:
    def test_each_part_rests_on_what_it_cites(self) -> None:
        run = asked("A return ticket costs 12 crowns [1]. It does not run in January [2].")
        assert run.answer == "A return ticket costs 12 crowns. It does not run in January."
        assert places(run) == {
            "A return ticket costs 12 crowns": ["prices.pdf"],
            "It does not run in January": ["winter.pdf"],
        }
        assert [citation.source for citation in run.citations] == ["model", "model"]
        assert run.marked_answer.text == (
            "A return ticket costs 12 crowns [1]. It does not run in January [2]."
        )
        assert not run.unsupported

    def test_the_numbers_are_those_of_the_evidence_and_not_of_the_model(self) -> None:
        run = asked("It does not run in January [2]. A return ticket costs 12 crowns [1].")
        assert [evidence.document for evidence in run.rests] == ["winter.pdf", "prices.pdf"]
        assert run.marked_answer.text.startswith("It does not run in January [1].")

    def test_a_page_is_narrowed_to_the_words_and_these_are_marked(self) -> None:
        run = asked("Dogs travel for 4 crowns [1].")
        (evidence,) = run.rests
        assert evidence.located
        assert evidence.box is not None
        assert Box.unit(*evidence.box).area <= LARGE
        assert "Dogs travel" in evidence.quote
        assert evidence.marks

    def test_two_parts_of_a_page_are_two_places(self) -> None:
        run = asked("A return ticket for adults costs 12 crowns [1]. Dogs travel for 4 crowns [1].")
        first, second = run.rests
        assert first.item == second.item == PRICES.id
        assert first.box != second.box
        assert run.marked_answer.text.endswith("Dogs travel for 4 crowns [2].")

    @pytest.mark.parametrize("marker", [" [1]", ""], ids=["cited", "not cited"])
    def test_sentences_beside_each_other_have_rectangles_of_their_own(self, marker: str) -> None:
        said = (
            "The pier was built in 1911 by Anna Berg",
            "Boats leave every hour from the old quay",
            "Tickets cost 12 crowns for adults",
        )
        pier = page("pier.pdf", 1, "The pier\n" + "\n".join(f"{sentence}." for sentence in said))
        policy = Watching((VRAG.search("pier"), VRAG.answer(" ".join(f"{one}{marker}." for one in said))))
        run = Agent(policy, Environment(MemorySearcher((pier,)), PROFILE), VragMethod()).run("The pier?")

        assert [evidence.quote for evidence in run.rests] == [f"{sentence}." for sentence in said]
        assert all(evidence.marks for evidence in run.rests)
        assert [len(citation.numbers) for citation in run.citations] == [1, 1, 1]

    def test_sentences_of_the_same_line_share_its_rectangle(self) -> None:
        run = asked(
            "A return ticket for adults costs 12 crowns [1]. In summer a return ticket is 12 crowns [1]."
        )
        assert len(run.rests) == 1

    def test_a_passage_is_cited_by_its_own_numbers(self) -> None:
        run = asked("It was painted green in 1987 [Text 1].")
        (evidence,) = run.rests
        assert (evidence.document, evidence.box) == ("notes.md", None)

    def test_what_was_never_shown_is_reported_and_cites_nothing(self) -> None:
        run = asked("Dogs travel for 4 crowns [7].")
        assert run.answer == "Dogs travel for 4 crowns."
        assert run.unsupported == ("The answer cites [7], which was not shown.",)
        assert places(run) == {"Dogs travel for 4 crowns.": ["prices.pdf"]}
        assert run.citations[0].source == "matched"

    @pytest.mark.parametrize(
        ("answer", "given"),
        [
            ("According to [9], dogs travel for 4 crowns.", "According to …, dogs travel for 4 crowns."),
            ("Dogs travel for 4 crowns [9].", "Dogs travel for 4 crowns."),
            ("[9] Dogs travel for 4 crowns.", "Dogs travel for 4 crowns."),
        ],
    )
    @pytest.mark.parametrize("method", [VragMethod(), React(), Rag(), Vimrag()], ids=lambda each: each.name)
    def test_no_number_that_names_nothing_shown_remains_in_the_answer_of_any_agent(
        self, method: Method, answer: str, given: str
    ) -> None:
        script = {
            "vimrag": (
                searches("found", "ferry"),
                memorizes(note("Picture 1")),
                answers("found", text=answer),
            ),
            "rag": (VRAG.answer(answer),),
        }.get(method.name, (VRAG.search("ferry"), VRAG.answer(answer)))
        run = Agent(Watching(script), Environment(CORPUS, PROFILE), method).run("What do dogs cost?")
        assert run.answer == given
        assert run.unsupported == ("The answer cites [9], which was not shown.",)

    def test_a_cited_page_that_lacks_the_words_is_cited_all_the_same(self) -> None:
        run = asked("Cats are forbidden aboard [2].")
        (evidence,) = run.rests
        assert evidence.document == "winter.pdf"
        assert not evidence.marks

    def test_a_sentence_without_a_marker_is_matched_all_the_same(self) -> None:
        run = asked("A return ticket costs 12 crowns [1]. The ferry does not run in January because of ice.")
        assert [citation.source for citation in run.citations] == ["model", "matched"]
        assert [evidence.document for evidence in run.rests] == ["prices.pdf", "winter.pdf"]

    def test_a_marker_that_is_a_word_is_replaced_and_cites(self) -> None:
        run = asked(
            "According to [2], the ferry does not run in January. A return ticket costs 12 crowns [1]."
        )
        assert run.answer is not None
        assert run.answer.startswith("According to winter.pdf, page 1, the ferry")
        assert "[" not in run.answer
        assert [evidence.document for evidence in run.rests] == ["winter.pdf", "prices.pdf"]

    def test_a_leading_marker_cites_for_the_sentence_behind_it(self) -> None:
        run = asked("- [2] It does not run in January.\n- [1] A return ticket costs 12 crowns.")
        assert places(run) == {
            "It does not run in January.": ["winter.pdf"],
            "A return ticket costs 12 crowns.": ["prices.pdf"],
        }


class TestOfAModelThatDoesNotCite:
    @pytest.mark.parametrize(
        ("answer", "document"),
        [
            ("A return ticket costs 12 crowns.", "prices.pdf"),
            ("The ferry does not run in January because of ice.", "winter.pdf"),
            ("The ferry was painted green in 1987.", "notes.md"),
        ],
    )
    def test_a_single_sentence_rests_on_the_page_that_says_it(self, answer: str, document: str) -> None:
        assert [evidence.document for evidence in asked(answer).rests] == [document]

    def test_each_sentence_rests_on_the_page_that_says_it(self) -> None:
        run = asked(LONG)
        assert places(run) == {
            "A return ticket for adults costs 12 crowns.": ["prices.pdf"],
            "Dogs travel for 4 crowns.": ["prices.pdf"],
            "In January it does not run because of ice in the harbour.": ["winter.pdf"],
        }
        assert run.marked_answer.text == (
            "A return ticket for adults costs 12 crowns [1]. Dogs travel for 4 crowns [2]. "
            "In January it does not run because of ice in the harbour [3]."
        )

    def test_a_sentence_that_nothing_says_has_no_citation(self) -> None:
        run = asked(f"{LONG} The captain plays the trombone on Sundays.")
        assert len(run.citations) == 3
        assert run.marked_answer.text.endswith("The captain plays the trombone on Sundays.")

    def test_an_answer_that_stands_nowhere_rests_on_what_was_looked_at(self) -> None:
        run = asked("Nobody knows why. Perhaps the captain does, perhaps not.")
        assert len(run.citations) == 1
        assert run.cited == 1

    def test_the_pictures_of_the_places_are_kept_with_the_run(self) -> None:
        files: dict[str, bytes] = {}
        policy = Watching((VRAG.search("ferry"), VRAG.answer(LONG)))
        environment = Environment(CORPUS, PROFILE, EnvironmentOptions(show=3))
        run = RunResult.of(
            Agent(policy, environment, VragMethod()).stream("Fares and winter?", save=files.__setitem__)
        )
        assert {f"{evidence.crop_sha256}.jpg" for evidence in run.rests} <= files.keys()


class TestOfAGraph:
    def script(self, answer: str) -> RunResult:
        policy = Watching(
            (
                searches("fares", "ferry fares"),
                memorizes(note("Picture 1"), note("Picture 2"), note("Text 1")),
                searches("winter", "ice January", ["fares"]),
                answers("winter", text=answer),
            )
        )
        environment = Environment(CORPUS, PROFILE, EnvironmentOptions(hits=3))
        run = Agent(policy, environment, Vimrag()).run("What does the ferry cost and when does it run?")
        assert isinstance(run.end, AnswerGiven)
        return run

    def test_nodes_are_cited_by_their_ids(self) -> None:
        run = self.script("It does not run in January [winter]. Dogs travel for 4 crowns [fares].")
        assert run.answer == "It does not run in January. Dogs travel for 4 crowns."
        assert places(run) == {
            "It does not run in January": ["winter.pdf"],
            "Dogs travel for 4 crowns": ["prices.pdf"],
        }
        assert run.graph is not None
        assert run.graph.newest.query == run.answer

    def test_a_result_of_a_node_is_cited_by_its_label(self) -> None:
        run = self.script("Dogs travel for 4 crowns [fares, Picture 1].")
        assert places(run) == {"Dogs travel for 4 crowns.": ["prices.pdf"]}

    def test_nodes_are_cited_by_their_numbers(self) -> None:
        run = self.script("Dogs travel for 4 crowns [1].")
        assert places(run) == {"Dogs travel for 4 crowns.": ["prices.pdf"]}


class TestOfAWrongCitation:
    """A citation moves to the page that says all of its part, where the cited one does not."""

    def test_swapped_citations_are_put_right(self) -> None:
        run = verified("The ferry does not run in January [1]. A return ticket costs 12 crowns [2].")
        assert places(run) == {
            "The ferry does not run in January": ["winter.pdf"],
            "A return ticket costs 12 crowns": ["prices.pdf"],
        }
        assert {citation.source for citation in run.citations} == {"matched"}
        assert {claim.verdict for claim in run.claims} == {ClaimVerdict.STATED}
        assert [evidence.document for evidence in run.rests] == ["winter.pdf", "prices.pdf"]

    def test_a_right_citation_stays_the_models(self) -> None:
        run = verified("The ferry does not run in January [2]. A return ticket costs 12 crowns [1].")
        assert {citation.source for citation in run.citations} == {"model"}

    def test_a_value_of_another_thing_is_no_support(self) -> None:
        pages = (
            page("a.pdf", 1, "Revenue report\n\nThe revenue of Northwind was 512 million crowns that year."),
            page("b.pdf", 1, "Revenue report\n\nThe revenue of Southwind was 387 million crowns that year."),
        )
        answer = "The revenue of Northwind was 387 million crowns [1]."
        run = verified(answer, MemorySearcher(pages), "revenue report")
        assert ClaimVerdict.DOUBTED in {claim.verdict for claim in run.claims}
        assert [evidence.document for evidence in run.rests] == ["a.pdf"]


def verified(answer: str, searcher: MemorySearcher = CORPUS, query: str = "ferry") -> RunResult:
    policy = Watching((VRAG.search(query), VRAG.answer(answer)))
    environment = Environment(searcher, PROFILE, EnvironmentOptions(show=3))
    method = VragMethod(verify=VerifyMode.TELL)
    return Agent(policy, environment, method).run("What does the ferry cost and when does it run?")
