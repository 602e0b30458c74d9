"""What stands in the files for containers and hosts agrees with itself and with the program.

What is tested here is what can be read. tests/live/test_built_image.py runs the image, and
tests/live/test_proxies.py the proxies.
"""

from __future__ import annotations

import fnmatch
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import yaml
from command_line import run_vrag
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from typer.main import get_command

from vrag.cli.root import create_app
from vrag.settings import Settings

app = create_app()

ROOT = Path(__file__).parents[1]
DOCKERFILE = ROOT / "Dockerfile"
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OF_SERVICES = frozenset(
    "build cap_drop command depends_on deploy entrypoint environment healthcheck image init logging networks "
    "ports profiles read_only restart security_opt shm_size stop_grace_period tmpfs volumes".split()
)
"""Keys of the Compose specification that are used here, so that a typing error is none of them."""


def instructions() -> list[tuple[str, str]]:
    """The lines of the Dockerfile, continued ones joined."""
    text = "\n".join(line for line in DOCKERFILE.read_text().splitlines() if not line.startswith("#"))
    joined = re.sub(r"\\\n\s*", "", text)
    return [(line.split(" ", 1)[0], line.split(" ", 1)[1]) for line in joined.splitlines() if line.strip()]


def values(name: str) -> list[str]:
    return [rest for instruction, rest in instructions() if instruction == name]


def serve_flags() -> set[str]:
    command: Any = get_command(app)
    parameters = command.commands["serve"].params
    return {flag for parameter in parameters for flag in (*parameter.opts, *parameter.secondary_opts)}


@pytest.mark.slow
def test_the_dockerfile_passes_its_linter() -> None:
    linter = shutil.which("hadolint", path=str(Path(sys.executable).parent))
    if linter is None:
        pytest.skip("hadolint is not installed")
    done = subprocess.run([linter, str(DOCKERFILE)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_image_runs_as_nobody_in_particular() -> None:
    assert values("USER")[-1] == "10001:10001"
    last = [instruction for instruction, _ in instructions()]
    assert "RUN" not in last[last.index("USER") :]
    base, *later = [value.split(" AS ")[0] for value in values("FROM")]
    assert set(later) == {"base", "packages"}  # stages of this file: the base is named once
    assert re.search(r":\d[\w.-]+(@sha256:[0-9a-f]{64})?$", base)


def test_the_service_may_be_any_user_of_group_0() -> None:
    assert "install -d -o 10001 -g 0 -m 775 /data" in values("RUN")[-1]


@pytest.mark.slow
def test_what_the_image_starts_is_a_command_that_refuses_without_a_token() -> None:
    arguments = yaml.safe_load(values("CMD")[-1])
    assert arguments[0] == "serve"
    assert {argument for argument in arguments if argument.startswith("-")} <= serve_flags()
    done = subprocess.run(
        [sys.executable, "-m", "vrag", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/bin:/bin"},
    )
    assert done.returncode == 2
    assert "VRAG_API_KEY" in done.stderr


def test_every_file_that_is_copied_is_let_through_and_nothing_else() -> None:
    patterns = (ROOT / ".dockerignore").read_text().split()
    assert patterns[0] == "*"
    let_through = [pattern[1:] for pattern in patterns if pattern.startswith("!")]
    for copied in values("COPY"):
        if not copied.startswith("--from"):
            for source in copied.split()[:-1]:
                assert (ROOT / source).exists(), source
                assert any(fnmatch.fnmatch(source, pattern) for pattern in let_through), source
    assert not any(fnmatch.fnmatch(".env", pattern) for pattern in let_through)
    licences = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["license-files"]
    assert set(licences) <= {source for copied in values("COPY") for source in copied.split()}


@pytest.mark.parametrize("name", ["image.lock", "build.lock"])
def test_everything_that_is_installed_has_a_version_and_hashes(name: str) -> None:
    text = re.sub(r"\\\n\s*", "", (ROOT / "deploy" / name).read_text())
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert lines
    for line in lines:
        assert "==" in line
        assert "--hash=sha256:" in line
    installs = [part for run in values("RUN") for part in run.split("&&") if " install " in f"{part} "]
    pip = [part for part in installs if "pip" in part]
    assert pip
    assert all("--require-hashes" in part or "--no-index" in part for part in pip)


def test_the_image_has_what_the_project_asks_for_with_its_doors_and_traces() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *extras["mcp"], *extras["otel"], *extras["s3"]]
    pinned = _pinned("image.lock")
    for line in wanted:
        requirement = Requirement(line)
        assert requirement.specifier.contains(pinned[canonicalize_name(requirement.name)]), line
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    assert {canonicalize_name(Requirement(line).name) for line in build} <= _pinned("build.lock").keys()


def _pinned(name: str) -> dict[str, str]:
    text = (ROOT / "deploy" / name).read_text()
    return {canonicalize_name(n): v for n, v in re.findall(r"^([\w.\-]+)==([^\s;]+)", text, re.MULTILINE)}


def test_the_health_check_asks_the_port_that_is_served() -> None:
    [check] = values("HEALTHCHECK")
    [port] = values("EXPOSE")
    assert f"127.0.0.1:{port}/healthz" in check
    code = yaml.safe_load(check.partition("CMD ")[2])
    compile(code[2], "healthcheck", "exec")


def test_services_know_no_unknown_key() -> None:
    assert set(COMPOSE) <= {"name", "services", "networks", "volumes"}
    for name, service in SERVICES.items():
        assert set(service) <= OF_SERVICES, name


def test_services_name_networks_volumes_and_services_that_exist() -> None:
    for service in SERVICES.values():
        assert set(service["networks"]) <= COMPOSE["networks"].keys()
        for volume in service.get("volumes", []):
            assert volume.partition(":")[0] in COMPOSE["volumes"]
        assert set(service.get("depends_on", {})) <= SERVICES.keys()


def test_without_a_profile_there_is_vrag_alone() -> None:
    assert [name for name, service in SERVICES.items() if not service.get("profiles")] == ["vrag"]
    assert SERVICES["vrag"]["depends_on"]["vllm"]["required"] is False


def test_only_vrag_is_reached_and_only_from_the_same_machine() -> None:
    published = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}
    assert published == {"vrag": ["127.0.0.1:8000:8000"]}
    assert COMPOSE["networks"]["models"]["internal"] is True
    assert SERVICES["vllm"]["networks"] == ["models"]
    vrag = SERVICES["vrag"]
    assert vrag["read_only"] is True
    assert vrag["cap_drop"] == ["ALL"]
    assert vrag["security_opt"] == ["no-new-privileges:true"]


def test_a_token_is_needed_and_stands_in_no_file() -> None:
    assert SERVICES["vrag"]["environment"]["VRAG_API_KEY"].startswith("${VRAG_API_KEY:?")
    for path in (ROOT / "compose.yaml", ROOT / "deploy" / "gpu.env", ROOT / "deploy" / "vrag.service"):
        assert not re.search(r"(KEY|TOKEN)=[\w-]{8,}", path.read_text())


def test_the_variables_are_settings() -> None:
    known = {f"VRAG_{name.upper()}" for name in Settings.model_fields} | {"VRAG_API_KEY"}
    assert set(SERVICES["vrag"]["environment"]) <= known
    lines = (ROOT / "deploy" / "gpu.env").read_text().splitlines()
    given = dict(line.split("=", 1) for line in lines if not line.startswith("#"))
    assert given.keys() - {"COMPOSE_PROFILES"} <= known
    assert given["COMPOSE_PROFILES"] in SERVICES["vllm"]["profiles"]
    assert given["VRAG_BASE_URL"] == "http://vllm:8000/v1"
    unit = (ROOT / "deploy" / "vrag.service").read_text()
    assert set(re.findall(r"\bVRAG_[A-Z_]+", unit)) <= known


def test_the_model_server_takes_as_many_pictures_as_an_agent_shows() -> None:
    command = SERVICES["vllm"]["command"]
    limit = yaml.safe_load(command[command.index("--limit-mm-per-prompt") + 1])
    assert limit == {"image": 10}
    [device] = SERVICES["vllm"]["deploy"]["resources"]["reservations"]["devices"]
    assert device["capabilities"] == ["gpu"]
    code = SERVICES["vllm"]["healthcheck"]["test"][3]
    compile(code, "healthcheck", "exec")


def test_the_server_gets_its_time_to_end() -> None:
    from vrag.server.options import ServerOptions

    grace = int(SERVICES["vrag"]["stop_grace_period"].removesuffix("s"))
    unit = (ROOT / "deploy" / "vrag.service").read_text()
    [stop] = re.findall(r"^TimeoutStopSec=(\d+)$", unit, re.MULTILINE)
    assert min(grace, int(stop)) > ServerOptions().drain_seconds


def test_the_unit_starts_a_command_that_exists() -> None:
    unit = (ROOT / "deploy" / "vrag.service").read_text()
    [line] = re.findall(r"^ExecStart=(.*)$", unit, re.MULTILINE)
    program, command, *arguments = shlex.split(line)
    assert (Path(program).name, command) == ("vrag", "serve")
    assert {argument for argument in arguments if argument.startswith("-")} <= serve_flags()


def backup_script() -> str:
    """What the unit of backups runs in a shell, without systemd's quotes."""
    unit = (ROOT / "deploy" / "vrag-backup.service").read_text().replace("\\\n", "")
    [line] = re.findall(r"^ExecStart=(.*)$", unit, re.MULTILINE)
    shell, flag, script = shlex.split(line)
    assert (shell, flag) == ("/bin/sh", "-c")
    return script.replace("$$", "$").replace("%%", "%")


@pytest.mark.slow
def test_the_backup_unit_backs_up_every_collection_and_reports_a_failure(tmp_path: Path) -> None:
    for name in ("documents", "two words", "no collection"):
        (tmp_path / "lib" / name).mkdir(parents=True)
    for name in ("documents", "two words"):
        (tmp_path / "lib" / name / "collection.db").touch()
    program = tmp_path / "vrag"
    program.write_text(
        f'#!/bin/sh\nprintf "%s|" "$@" >> {tmp_path}/log; case "$3" in *words) exit 4;; esac\n'
    )
    program.chmod(0o755)
    script = backup_script().replace("/opt/vrag/bin/vrag", str(program))
    script = script.replace("/var/lib/vrag", f"{tmp_path}/lib").replace("/mnt/backup/vrag", "/backup")
    assert subprocess.run(["/bin/sh", "-c", script], check=False).returncode == 4
    calls = [
        f"index|backup|/backup/{name}|--collection|{tmp_path}/lib/{name}|--keep|30|--wait|600|"
        for name in ("documents", "two words")
    ]
    assert (tmp_path / "log").read_text() == "".join(calls)
    command: Any = get_command(app)
    flags = {
        flag for parameter in command.commands["index"].commands["backup"].params for flag in parameter.opts
    }
    assert {"--collection", "--keep", "--wait"} <= flags


@pytest.mark.slow
def test_a_backup_is_restored_and_asked_by_the_script(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("# Ferry\n\nThe ferry carried 48,200 passengers.\n")
    for words in ("add notes.md", "backup backups"):
        assert run_vrag("index", *words.split(), "--collection", "c", cwd=tmp_path).status == 0
    program = tmp_path / "vrag"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m vrag "$@"\n')
    program.chmod(0o755)
    line = [ROOT / "deploy" / "restore-test.sh", "backups", "How many passengers did the ferry carry?"]
    env = os.environ | {"VRAG": str(program), "TMPDIR": str(tmp_path)}
    done = subprocess.run(line, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "48,200" in done.stdout
    assert {path.name for path in tmp_path.iterdir()} == {"notes.md", "c", "backups", "vrag"}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["vrag.service", "vrag-backup.service", "vrag-backup.timer"])
def test_systemd_has_no_objection_to_the_unit(tmp_path: Path, name: str) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is not installed")
    for path in (ROOT / "deploy").glob("vrag*"):
        (tmp_path / path.name).write_text(path.read_text().replace("/opt/vrag/bin/vrag", "/bin/true"))
    unit = tmp_path / name
    done = subprocess.run([analyze, "verify", unit], capture_output=True, text=True, check=False)
    assert (done.returncode, [line for line in done.stderr.splitlines() if name in line]) == (0, [])
    if unit.suffix == ".timer":
        return
    line = [analyze, "security", "--offline=true", "--threshold=20", "--no-pager", unit]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(("name", "words"), [
    ("nginx.conf", ["proxy_buffering off;", "X-Forwarded-For $remote_addr;", "client_max_body_size 512m;"]),
    ("Caddyfile", ["flush_interval -1", "max_size 512MiB"]),
])  # fmt: skip
def test_proxies_pass_events_at_once_and_uploads_whole(name: str, words: list[str]) -> None:
    from vrag.server.options import ServerOptions

    text = (ROOT / "deploy" / name).read_text()
    assert all(word in text for word in words)
    assert text.count("{") == text.count("}")
    assert ServerOptions().upload_bytes == 512 * 1024 * 1024


def page() -> str:
    return (ROOT / "docs" / "production.md").read_text(encoding="utf-8")


def test_the_page_lists_every_limit_with_its_default() -> None:
    from vrag.server.options import ServerOptions

    access = {
        "token", "tokens", "local", "hosts", "origins", "proxies", "secure_cookie", "limit_local",
        "fixed_models", "audit", "state", "keep_days", "root_path",
    }  # fmt: skip
    listed = dict(re.findall(r"^\| `(\w+)` \| ([\d,]+(?: KiB)?)", page(), re.MULTILINE))
    options = {field.name: field.default for field in fields(ServerOptions) if field.name not in access}
    assert list(listed) == list(options)
    for name, default in options.items():
        unit = 2**20 if name.endswith("_bytes") else 2**10 if name == "body_rate" else 1
        unit = 3600 if name == "session_seconds" else unit
        number, kib, _ = listed[name].partition(" KiB")
        assert int(number.replace(",", "")) * (2**10 if kib else unit) == default, name


def test_the_metrics_of_the_page_are_counted() -> None:
    from vrag.server.metrics import ServerMetrics

    told = set(re.findall(r"^# HELP (vrag_\w+)", ServerMetrics().render().decode(), re.MULTILINE))
    counted = {name for name in told if not name.endswith("_created")}
    table = page().partition("| metric | tells |")[2].partition("\n\n")[0]
    assert set(re.findall(r"`(vrag_\w+)`", table)) == counted
    alarms = page().partition("Worth an alarm")[2].partition("\n## ")[0]
    assert set(re.findall(r"\b(vrag_\w+)", alarms)) <= counted


def test_the_commands_of_the_page_name_flags_and_files_that_exist() -> None:
    for line in re.findall(r"\bvrag serve (--[^\n#`]*)", page()):
        assert {word for word in line.split() if word.startswith("--")} <= serve_flags()
    for name in re.findall(r"deploy/[\w.-]+", page()):
        assert (ROOT / name).exists(), name
