"""The file of users: what it takes, what it refuses, and how it changes under a running server."""

from __future__ import annotations

import os
import re
import threading
import tomllib
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vrag.errors import SettingsError
from vrag.server.http.users import TokenFile, User, UserRole, digest_of

if TYPE_CHECKING:
    from pathlib import Path

DIGEST = "ab" * 32


@pytest.fixture
def file(tmp_path: Path) -> TokenFile:
    return TokenFile(tmp_path / "users" / "tokens.toml")


def find(file: TokenFile, token: str) -> User | None:
    return file.find(digest_of(token.encode()))


def written(tmp_path: Path, text: str | bytes, mode: int = 0o600) -> TokenFile:
    path = tmp_path / "tokens.toml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    path.chmod(mode)
    return TokenFile(path)


def test_a_token_leads_to_its_user_and_is_stored_nowhere(file: TokenFile) -> None:
    alice, zoe = file.add("alice"), file.add("Zoë", UserRole.ADMINISTER)
    assert (find(file, alice), find(file, zoe)) == (
        User("alice", UserRole.MANAGE),
        User("Zoë", UserRole.ADMINISTER),
    )
    assert find(file, alice[:-1]) is None
    assert find(file, "") is None
    text = file.path.read_text(encoding="utf-8")
    assert alice not in text
    assert zoe not in text
    assert len({file.add(f"user{number}") for number in range(20)}) == 20
    assert [user.name for user in file.users][:2] == ["Zoë", "alice"]


def test_users_of_former_releases_keep_their_rights(tmp_path: Path) -> None:
    tokens = {name: digest_of(name.encode()).hex() for name in ("alice", "bob", "carol")}
    text = "".join(
        f"[{name}]\nsha256 = '{tokens[name]}'\n{admin}\n"
        for name, admin in (("alice", "admin = false"), ("bob", ""), ("carol", "admin = true"))
    )
    file = written(tmp_path, text)
    before = dict.fromkeys(("alice", "bob"), UserRole.MANAGE) | {"carol": UserRole.ADMINISTER}
    assert {user.name: user.role for user in file.users} == before
    file.set_role("bob", UserRole.ASK)  # rewrites the file
    assert {user.name: user.role for user in file.users} == before | {"bob": UserRole.ASK}
    assert "admin = " not in file.path.read_text(encoding="utf-8")


def test_a_new_role_is_that_of_the_same_token(file: TokenFile) -> None:
    alice = file.add("alice", UserRole.ASK)
    other = TokenFile(file.path)
    assert find(other, alice) == User("alice", UserRole.ASK)
    file.set_role("ALICE", UserRole.UPLOAD)
    assert find(other, alice) == User("alice", UserRole.UPLOAD)
    with pytest.raises(SettingsError, match="no user"):
        file.set_role("bob", UserRole.ASK)


def test_each_role_includes_those_before_it() -> None:
    roles = list(UserRole)
    assert [[role.includes(other) for other in roles] for role in roles] == [
        [at >= other for other in range(len(roles))] for at in range(len(roles))
    ]
    assert not any(User("", None).may(role) for role in roles)


@pytest.mark.skipif(os.name == "nt", reason="other permissions")
def test_only_the_owner_may_read_what_was_written(file: TokenFile) -> None:
    file.add("alice")
    assert file.path.stat().st_mode & 0o777 == 0o600


def test_a_change_of_another_process_is_seen_at_once(file: TokenFile) -> None:
    alice = file.add("alice")
    other = TokenFile(file.path)
    assert find(file, alice)
    bob = other.add("bob")
    assert find(file, bob)
    other.remove("alice")
    assert find(file, alice) is None
    assert find(file, bob)
    assert other.add("alice") != alice
    assert find(file, alice) is None


def test_while_the_file_is_damaged_the_former_users_stay(
    file: TokenFile, caplog: pytest.LogCaptureFixture
) -> None:
    alice = file.add("alice")
    assert find(file, alice)
    file.path.write_text("[alice", encoding="utf-8")
    for _ in range(3):
        assert find(file, alice)
    assert len(caplog.records) == 1
    assert "damaged" in caplog.text
    file.path.unlink()
    assert find(file, alice) is None


def test_users_are_added_at_once_by_many(file: TokenFile) -> None:
    threads = [threading.Thread(target=file.add, args=(f"user{number}",)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(file.users) == 12


@pytest.mark.parametrize("name", ["alice", "ALICE", "Alice"])
def test_one_name_is_one_user(file: TokenFile, name: str) -> None:
    token = file.add("alice")
    with pytest.raises(SettingsError, match="already"):
        file.add(name)
    assert find(file, token) == User("alice", UserRole.MANAGE)
    file.remove(name)
    assert file.users == []


@pytest.mark.parametrize(
    "name",
    ["", " ", "a b", "-a", "a/b", "a\nb", "a\x00b", "a\u202eb", 'a"b', "x" * 65, "..", "admin", "Admin"],
)
def test_a_name_that_cannot_be_is_refused(file: TokenFile, name: str) -> None:
    with pytest.raises(SettingsError) as refused:
        file.add(name)
    assert refused.value.hint
    assert not file.path.exists()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[alice", "damaged"),
        ("alice = 3", "damaged at 'alice'"),
        ("[alice]\nsha256 = 'short'", "damaged at 'alice.sha256'"),
        (f"[alice]\nsha256 = '{DIGEST}'\nadmin = 'perhaps'", "damaged at 'alice.admin'"),
        (f"[alice]\nsha256 = '{DIGEST}'\nrole = 'king'", "the user 'alice' has the role 'king'."),
        (f"[alice]\nsha256 = '{DIGEST}'\nrole = 3", "the user 'alice' has the role '3'."),
        (f"[alice]\nsha256 = '{DIGEST}'\nrole = 'ask'\nadmin = true", "remove admin"),
        (f"[alice]\nsha256 = '{DIGEST}'\nadministrator = true", "damaged at 'alice.administrator'"),
        (f"[alice]\nsha256 = '{DIGEST}'\n[alice]\nsha256 = '{'cd' * 32}'", "damaged"),
        (f"[alice]\nsha256 = '{DIGEST}'\n[Alice]\nsha256 = '{'cd' * 32}'", "twice"),
        (f"[alice]\nsha256 = '{DIGEST}'\n[bob]\nsha256 = '{DIGEST}'", "one token for two users"),
        (f"['a b']\nsha256 = '{DIGEST}'", "cannot be the name"),
        (f"[admin]\nsha256 = '{DIGEST}'", "server's own token"),
        (b"\xff\xfe", "damaged"),
        ("x = " + "[" * 10_000, "damaged"),
        ("#" * 5_000_000, "too large"),
    ],
)
def test_a_damaged_file_is_refused_with_what_is_wrong(tmp_path: Path, text: str | bytes, reason: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(reason)) as refused:
        written(tmp_path, text).check()
    assert refused.value.hint
    assert "Value error" not in refused.value.message


def test_a_role_that_does_not_exist_is_named_with_its_file_and_user_and_the_roles(tmp_path: Path) -> None:
    file = written(tmp_path, f"[alice]\nsha256 = '{DIGEST}'\nrole = 'king'")
    with pytest.raises(SettingsError) as refused:
        file.check()
    assert (
        refused.value.message == f"In the file of tokens {file.path}, the user 'alice' has the role 'king'."
    )
    assert refused.value.hint == "Write one of these roles in the file: ask, upload, manage, administer."


@pytest.mark.parametrize("text", ["", "# nobody\n"])
def test_a_file_without_users_lets_nobody_in_and_says_so(tmp_path: Path, text: str) -> None:
    file = written(tmp_path, text)
    with pytest.raises(SettingsError, match="no users") as refused:
        file.check()
    assert "vrag tokens add" in refused.value.hint
    with pytest.raises(SettingsError, match="no file of tokens"):
        TokenFile(tmp_path / "absent").check()


@pytest.mark.skipif(os.name == "nt", reason="other permissions")
@pytest.mark.parametrize("mode", [0o644, 0o660, 0o602, 0o601, 0o666])
def test_a_file_that_others_may_change_or_everybody_may_read_is_refused(tmp_path: Path, mode: int) -> None:
    file = written(tmp_path, f"[alice]\nsha256 = '{DIGEST}'\n", mode)
    with pytest.raises(SettingsError, match="Others") as refused:
        file.check()
    assert "chmod 600" in refused.value.hint
    file.path.chmod(0o640)
    file.check()


@pytest.mark.skipif(os.name == "nt", reason="other permissions")
def test_a_file_of_another_owner_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = written(tmp_path, f"[alice]\nsha256 = '{DIGEST}'\n")
    if file.path.stat().st_uid == 0:
        os.chown(file.path, 12345, -1)
    monkeypatch.setattr("os.geteuid", lambda: 4321)
    with pytest.raises(SettingsError, match="another user of this machine"):
        file.check()


@given(st.text(max_size=30))
def test_a_name_is_refused_or_kept_as_it_is(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    file = TokenFile(tmp_path_factory.mktemp("names") / "tokens.toml")
    try:
        token = file.add(name)
    except SettingsError:
        return
    user = find(file, token)
    assert user
    assert list(tomllib.loads(file.path.read_text(encoding="utf-8"))) == [user.name]
    file.remove(name)
