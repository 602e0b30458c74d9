"""What workflows, issue forms and metadata of the repository promise, and the notes of a release."""

from __future__ import annotations

import itertools
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

import vrag
from tools.write_release_notes import ReleaseError, cut_notes, split_sections

ROOT = Path(__file__).parents[1]
WORKFLOWS: dict[str, dict[Any, Any]] = {
    path.stem: yaml.safe_load(path.read_text(encoding="utf-8"))
    for path in sorted((ROOT / ".github" / "workflows").glob("*.yml"))
}
JOBS = {(file, name): job for file, workflow in WORKFLOWS.items() for name, job in workflow["jobs"].items()}
CALLED = {file for file, workflow in WORKFLOWS.items() if set(workflow[True]) == {"workflow_call"}}
"""Workflows that are jobs of others. `on` is read as True by YAML 1.1."""
STEPS = [(f"{file}/{name}", step) for (file, name), job in JOBS.items() for step in job.get("steps", [])]
LINES = [
    line for file in WORKFLOWS for line in (ROOT / f".github/workflows/{file}.yml").read_text().splitlines()
]
FORMS = [path for path in (ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml") if path.stem != "config"]
WRITERS = {
    "codeql/analyze": {"security-events"},
    "docs/deploy": {"pages", "id-token"},
    "image/publish": {"packages", "id-token"},
    "release/pypi": {"id-token"},
    "release/github": {"contents", "id-token", "attestations"},
    "release/start-workflows": {"actions"},
    "scorecard/analyze": {"security-events", "id-token"},
}
"""The jobs that may write, and what."""
PROGRAMS = {"make", "gh", "cosign", "echo", "!", "mkdir"}
"""What a command of a step begins with."""


def read_targets() -> set[str]:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    return set(re.findall(r"^([a-z-]+):(?!=)", text, re.MULTILINE))


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


class TestWorkflows:
    def test_every_action_is_pinned_to_a_commit_and_its_version_stands_beside_it(self) -> None:
        used = [line.strip() for line in LINES if re.search(r"^\s*(- )?uses:", line)]

        used = [line for line in used if not line.startswith("uses: $/.github/workflows/")]
        assert len(used) == sum("uses" in step for _, step in STEPS)
        assert [
            line for line in used if not re.search(r"uses: [\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$", line)
        ] == []

    def test_an_action_has_one_version(self) -> None:
        pins = {step["uses"] for _, step in STEPS if "uses" in step}
        families = [pin.partition("@")[0] for pin in pins]

        assert sorted(families) == sorted(set(families))

    @pytest.mark.parametrize("job", JOBS, ids="/".join)
    def test_a_job_has_a_name_a_time_limit_and_the_permissions_that_it_needs(
        self, job: tuple[str, str]
    ) -> None:
        described = JOBS[job]
        written = {name for name, access in described["permissions"].items() if access == "write"}

        assert WORKFLOWS[job[0]]["permissions"] == {}
        assert described["name"]
        assert "uses" in described or 0 < described["timeout-minutes"] <= 90
        assert written == WRITERS.get("/".join(job), set())

    def test_steps_have_names(self) -> None:
        assert [step for _, step in STEPS if not step.get("name")] == []

    def test_a_checkout_keeps_no_credentials(self) -> None:
        checkouts = [step for _, step in STEPS if step.get("uses", "").startswith("actions/checkout@")]

        assert checkouts
        assert all(step["with"]["persist-credentials"] is False for step in checkouts)

    def test_no_code_of_a_pull_request_runs_with_secrets(self) -> None:
        events = {event for workflow in WORKFLOWS.values() for event in workflow[True]}

        assert events.isdisjoint({"pull_request_target", "workflow_run", "issue_comment"})
        assert not any("secrets." in line for line in LINES)

    def test_what_runs_twice_has_a_concurrency_group(self) -> None:
        assert {file for file, workflow in WORKFLOWS.items() if "concurrency" not in workflow} == CALLED

    def test_releases_use_no_cache(self) -> None:
        cached = {job.split("/")[0] for job, step in STEPS if "cache" in step.get("with", {})}

        assert cached.isdisjoint({"release", "image", "docs", "wheel"})

    def test_caches_depend_on_files_that_exist(self) -> None:
        for _, step in STEPS:
            for name in step.get("with", {}).get("cache-dependency-path", "").split():
                assert (ROOT / name).exists(), name

    def test_every_command_is_a_target_of_make_or_a_known_program(self) -> None:
        targets = read_targets()
        commands = [line.split() for _, step in STEPS for line in step.get("run", "").strip().splitlines()]
        made = {word for words in commands if words[0] == "make" for word in words[1:2]}
        live = set(JOBS["nightly", "live"]["strategy"]["matrix"]["target"])

        assert {words[0] for words in commands} <= PROGRAMS
        assert made - {'"$TARGET"'} <= targets
        assert live <= targets

    def test_the_last_job_waits_for_all_others(self) -> None:
        jobs = {name for file, name in JOBS if file == "ci"}

        assert set(JOBS["ci", "passed"]["needs"]) == jobs - {"passed"}

    def test_the_matrix_has_the_versions_and_systems_of_the_classifiers(self) -> None:
        classifiers = "\n".join(project()["classifiers"])
        versions = re.findall(r"Python :: (3\.\d+)$", classifiers, re.MULTILINE)
        systems = {"Linux": "ubuntu", "MacOS": "macos", "Windows": "windows"}
        wheels = JOBS["wheel", "wheel"]["strategy"]["matrix"]

        assert JOBS["ci", "test"]["strategy"]["matrix"]["python"] == versions
        assert wheels["python"] == [versions[0], versions[-1]]
        assert {runner.split("-")[0] for runner in wheels["os"]} == {
            runner for system, runner in systems.items() if f":: {system}" in classifiers
        }
        assert (
            JOBS["release", "wheel"]["uses"] == JOBS["ci", "wheel"]["uses"] == "$/.github/workflows/wheel.yml"
        )

    def test_what_is_published_was_tested_as_it_is(self) -> None:
        assert JOBS["release", "wheel"]["needs"] == "build"
        assert JOBS["release", "pypi"]["needs"] == "wheel"
        assert JOBS["release", "github"]["needs"] == "pypi"
        assert not any("make dist" in step.get("run", "") for step in JOBS["release", "pypi"]["steps"])

    def test_the_newest_release_of_the_changelog_can_be_tagged(self) -> None:
        sections = split_sections((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
        citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
        newest = list(sections)[1]

        assert newest == vrag.__version__ == str(citation["version"])
        assert sections[newest][0] == str(citation["date-released"])

    def test_the_bill_of_materials_is_attested_and_released(self) -> None:
        steps = JOBS["release", "github"]["steps"]
        attested = next(
            step["with"]["subject-path"] for step in steps if "subject-path" in step.get("with", {})
        )
        assert "build/release/*.cdx.json" in attested
        assert any("build/release/*.cdx.json" in step.get("run", "") for step in steps)

    def test_torch_has_the_version_of_the_project(self) -> None:
        groups = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["dependency-groups"]
        pinned = next(line for line in groups["dev"] if line.startswith("torch=="))

        assert {
            workflow["env"]["TORCH"].split()[0] for workflow in WORKFLOWS.values() if "env" in workflow
        } == {pinned}


class TestTiers:
    MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")

    def test_a_test_is_in_one_tier(self) -> None:
        tiers = dict(re.findall(r"^(FIRST|SECOND)_TIER := (.+)$", self.MAKEFILE, re.MULTILINE))

        for slow, smoke in itertools.product((True, False), repeat=2):
            chosen = [eval(tier, {"slow": slow, "smoke": smoke}) for tier in tiers.values()]
            assert sorted(chosen) == [False, True]

    def test_each_tier_has_its_target(self) -> None:
        commands = dict(re.findall(r"^(test|test-all): system.*\n\t(.+)$", self.MAKEFILE, re.MULTILINE))

        assert commands == {
            "test": '$(PYTEST) -m "$(FIRST_TIER)"',
            "test-all": '$(PYTEST) -m "$(SECOND_TIER)"',
        }

    def test_both_run_in_this_order_on_a_fresh_machine_and_for_each_version_of_python(self) -> None:
        script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
        made = [step.get("run") for step in JOBS["ci", "test"]["steps"]]

        assert re.findall(r"^make (test\S*)", script, re.MULTILINE) == ["test", "test-all"]
        assert made[-2:] == ["make test", "make test-all"]

    def test_what_fails_is_not_run_again(self) -> None:
        assert not re.search(r"last-failed|--lf|rerun", self.MAKEFILE)


class TestForms:
    @pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
    def test_a_form_has_fields_with_ids_of_their_own(self, path: Path) -> None:
        form = yaml.safe_load(path.read_text(encoding="utf-8"))
        fields = [field for field in form["body"] if field["type"] != "markdown"]
        ids = [field["id"] for field in fields]

        assert form["name"]
        assert form["description"]
        assert len(set(ids)) == len(ids)
        assert all(field["attributes"]["label"] for field in fields)
        assert any(field["validations"]["required"] for field in fields)

    def test_a_bug_comes_with_what_doctor_says(self) -> None:
        form = yaml.safe_load((ROOT / ".github/ISSUE_TEMPLATE/bug.yml").read_text(encoding="utf-8"))
        [doctor] = [field for field in form["body"] if field.get("id") == "doctor"]

        assert "`vrag doctor`" in doctor["attributes"]["label"]
        assert doctor["validations"]["required"]

    def test_dependabot_reads_every_kind_of_dependency_and_waits_before_a_new_version(self) -> None:
        updates = yaml.safe_load((ROOT / ".github/dependabot.yml").read_text(encoding="utf-8"))["updates"]

        assert {update["package-ecosystem"] for update in updates} >= {
            "pip",
            "github-actions",
            "docker",
            "npm",
        }
        assert all(update["groups"] and update["cooldown"]["default-days"] >= 7 for update in updates)
        assert all((ROOT / update["directory"].strip("/")).is_dir() for update in updates)

    def test_the_citation_names_the_licence(self) -> None:
        citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))

        assert citation["license"] == project()["license"]

    def test_hooks_run_commands_of_the_environment(self) -> None:
        hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"]

        assert [repository["repo"] for repository in hooks] == ["local"]
        assert all(hook["entry"].startswith(".venv/bin/") for hook in hooks[0]["hooks"])

    def test_the_targets_that_contributors_are_told_exist(self) -> None:
        text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
        named = set(re.findall(r"^make ([a-z-]+)|`make ([a-z-]+)", text, re.MULTILINE))

        assert {one or other for one, other in named} <= read_targets()

    @pytest.mark.parametrize("name", ["CONTRIBUTING.md", "CODE_OF_CONDUCT.md"])
    def test_links_of_the_guides_lead_somewhere(self, name: str) -> None:
        for target in re.findall(r"\]\(([^)#]+)\)", (ROOT / name).read_text(encoding="utf-8")):
            assert target.startswith("https://") or (ROOT / target).exists(), target


CHANGELOG = """# Changelog

## Unreleased

## 0.2.0 – 2026-11-27

- New, see [the page](docs/new.md) and [PyPI](https://pypi.org).

### Fixed

- Old.

## 0.1.0 – 2026-11-22

- First.
"""


class TestNotes:
    CITED = ("0.2.0", "2026-11-27")

    def test_notes_are_the_section_of_the_version_with_links_to_the_tag(self) -> None:
        notes = cut_notes("v0.2.0", "0.2.0", CHANGELOG, self.CITED)

        assert notes == (
            "- New, see [the page](https://github.com/vrag-agent/vrag/blob/v0.2.0/docs/new.md)"
            " and [PyPI](https://pypi.org).\n\n### Fixed\n\n- Old.\n"
        )

    @pytest.mark.parametrize(
        ("tag", "version", "changelog", "cited", "reason"),
        [
            ("v0.3.0", "0.2.0", CHANGELOG, CITED, "the tag is v0.3.0"),
            ("0.2.0", "0.2.0", CHANGELOG, CITED, "the tag is 0.2.0"),
            ("v0.3.0", "0.3.0", CHANGELOG, CITED, "no section '## 0.3.0"),
            ("v0.2.0", "0.2.0", CHANGELOG.replace(" – 2026-11-27", ""), CITED, "no section"),
            (
                "v0.2.0",
                "0.2.0",
                CHANGELOG.replace("Unreleased\n", "Unreleased\n\n- More."),
                CITED,
                "Unreleased",
            ),
            ("v0.2.0", "0.2.0", CHANGELOG, ("0.1.0", "2026-11-22"), "CITATION.cff names 0.1.0 of 2026-11-22"),
        ],
    )
    def test_files_that_disagree_are_not_released(
        self, tag: str, version: str, changelog: str, cited: tuple[str, str], reason: str
    ) -> None:
        with pytest.raises(ReleaseError, match=re.escape(reason)):
            cut_notes(tag, version, changelog, cited)
