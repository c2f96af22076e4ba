"""Tokens and sessions: who is known, and what is kept of them."""

from __future__ import annotations

import json
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sightline.errors import ConfigurationError
from sightline.server import credentials
from sightline.server.credentials import Identity, OneToken, Role, TokenFile, token_file

TOKEN = "0123456789abcdef"


@pytest.fixture
def tokens(tmp_path: Path) -> TokenFile:
    return TokenFile(tmp_path / "kept" / "tokens.json")


def test_each_role_may_what_those_before_it_may() -> None:
    order = [Role.VIEWER, Role.OPERATOR, Role.ADMIN]

    assert [[role.covers(needed) for needed in order] for role in order] == [
        [True, False, False],
        [True, True, False],
        [True, True, True],
    ]


def test_the_first_token_is_made_once(tokens: TokenFile) -> None:
    first, second = tokens.begin(), tokens.begin()

    assert first is not None
    assert second is None
    assert tokens.identify(first) == Identity("admin", Role.ADMIN)


def test_a_token_is_kept_as_a_hash_that_only_its_owner_reads(tokens: TokenFile) -> None:
    token = tokens.add("viewer", Role.VIEWER)

    text = tokens.path.read_text()
    assert token not in text
    assert token.partition(".")[2] not in text
    assert stat.S_IMODE(tokens.path.stat().st_mode) == 0o600
    assert {path.name for path in tokens.path.parent.iterdir()} == {"tokens.json", ".tokens.json.lock"}


def test_nothing_else_is_taken_for_a_token(tokens: TokenFile) -> None:
    token = tokens.add("viewer", Role.VIEWER)
    other = tokens.add("other", Role.ADMIN)
    mixed = f"{other.partition('.')[0]}.{token.partition('.')[2]}"

    wrong = ["", ".", token[:-1], f"{token}x", token.partition(".")[0], token.partition(".")[2], mixed, "é", "x" * 9999]
    assert [tokens.identify(one) for one in wrong] == [None] * len(wrong)


def test_a_token_that_was_identified_is_known_without_its_hash(
    tokens: TokenFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = tokens.add("viewer", Role.VIEWER)
    assert tokens.identify_quickly(token) is None
    tokens.identify(token)
    monkeypatch.setattr(credentials, "_hash", None)

    assert tokens.identify_quickly(token) == tokens.identify(token) == Identity("viewer", Role.VIEWER)


def test_a_session_stands_for_its_token_and_does_not_hold_it(tokens: TokenFile) -> None:
    token = tokens.add("viewer", Role.VIEWER)

    session = tokens.session(token)

    assert session is not None
    assert token.partition(".")[2] not in session
    assert tokens.identify_session(session) == Identity("viewer", Role.VIEWER)
    assert TokenFile(tokens.path).identify_session(session) == Identity("viewer", Role.VIEWER)
    wrong = ["", "..", session[:-1], session.replace(".", "x"), "viewer.99999999999.", session.partition(".")[2]]
    assert [tokens.identify_session(one) for one in wrong] == [None] * len(wrong)


def test_sessions_end(tokens: TokenFile, monkeypatch: pytest.MonkeyPatch) -> None:
    token = tokens.add("viewer", Role.VIEWER)
    monkeypatch.setattr(credentials, "_SESSION_SECONDS", -1)

    session = tokens.session(token)

    assert session is not None
    assert tokens.identify_session(session) is None


def test_a_token_that_was_removed_elsewhere_is_refused_at_once(tokens: TokenFile) -> None:
    token, other = tokens.add("viewer", Role.VIEWER), tokens.add("other", Role.OPERATOR)
    session = tokens.session(token)
    assert session is not None

    TokenFile(tokens.path).remove("viewer")

    assert tokens.identify(token) is None
    assert tokens.identify_quickly(token) is None
    assert tokens.identify_session(session) is None
    assert tokens.identify(other) == Identity("other", Role.OPERATOR)


def test_two_tokens_of_one_name_are_refused(tokens: TokenFile) -> None:
    tokens.add("viewer", Role.VIEWER)

    with pytest.raises(ConfigurationError, match="there is a token 'viewer' already"):
        tokens.add("viewer", Role.ADMIN)


def test_a_token_that_is_not_there_can_not_be_removed(tokens: TokenFile) -> None:
    tokens.add("viewer", Role.VIEWER)

    with pytest.raises(ConfigurationError, match="there is no token 'other'; tokens: viewer"):
        tokens.remove("other")


def test_tokens_made_at_the_same_time_are_all_kept(tokens: TokenFile) -> None:
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda number: TokenFile(tokens.path).add(f"n{number}", Role.VIEWER), range(16)))

    assert {tokens.identify(token) for token in made} == {Identity(f"n{number}", Role.VIEWER) for number in range(16)}


@pytest.mark.parametrize("content", ["", "{", "[]", '{"tokens": []}', '{"key": "", "tokens": [{"name": "x"}]}'])
def test_a_file_that_is_none_of_tokens_is_said_and_left_alone(tokens: TokenFile, content: str) -> None:
    tokens.path.parent.mkdir()
    tokens.path.write_text(content)

    with pytest.raises(ConfigurationError, match="is no file of tokens"):
        tokens.begin()
    assert tokens.path.read_text() == content


def test_a_path_that_can_not_be_a_file_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(ConfigurationError, match="SIGHTLINE_TOKENS"):
        TokenFile(tmp_path / "file" / "tokens.json").begin()


def test_the_file_is_that_of_the_variable_else_below_the_home_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIGHTLINE_TOKENS", "/somewhere/tokens")
    assert token_file() == Path("/somewhere/tokens")

    monkeypatch.delenv("SIGHTLINE_TOKENS")
    monkeypatch.setenv("XDG_CONFIG_HOME", "/own")
    assert token_file() == Path("/own/sightline/tokens.json")

    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", "/home/somebody")
    assert token_file() == Path("/home/somebody/.config/sightline/tokens.json")


def test_a_given_token_is_the_admins(tokens: TokenFile) -> None:
    del tokens
    given = OneToken(TOKEN)
    session = given.session(TOKEN)

    assert given.identify(TOKEN) == Identity("token", Role.ADMIN)
    assert given.identify(f"{TOKEN}x") is None
    assert given.session("wrong") is None
    assert session is not None
    assert TOKEN not in session
    assert given.identify_session(session) == Identity("token", Role.ADMIN)
    assert OneToken("another-token-of-16").identify_session(session) is None


@pytest.mark.parametrize("token", ["", "short", "fifteen-letters", "sixteen letters!", "0123456789abcdeé"])
def test_a_weak_or_unusable_token_is_refused(token: str) -> None:
    with pytest.raises(ConfigurationError, match="16 characters"):
        OneToken(token)


def test_what_is_kept_is_json(tokens: TokenFile) -> None:
    tokens.add("viewer", Role.VIEWER)

    kept = json.loads(tokens.path.read_text())
    assert [(one["name"], one["role"]) for one in kept["tokens"]] == [("viewer", "viewer")]
