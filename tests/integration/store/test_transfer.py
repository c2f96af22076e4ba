"""`sightline models push` and `pull` between stores, folders and a server of S3: whole, or one error and nothing."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

from sightline.cli.main import execute
from sightline_plugins.store import Origin, Store
from sightline_plugins.store.record import new_record
from tests.integration.delivery.object_store import KEY, SECRET, ObjectStoreServer

BUCKET = "models"
CONTENT = bytes(range(256)) * 16_000
"""Four megabytes: more than one request reads."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStoreServer]:
    server = ObjectStoreServer(tmp_path_factory.mktemp("s3"))
    server.start()
    yield server
    server.kill()


@pytest.fixture
def bucket(server: ObjectStoreServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStoreServer]:
    """An empty bucket, with the environment that leads to it."""
    environment = {
        "AWS_ENDPOINT_URL": server.endpoint,
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "us-east-1",
        "NO_PROXY": "127.0.0.1",
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    server.client().create_bucket(Bucket=BUCKET)
    yield server
    for key in server.objects(BUCKET):
        server.client().delete_object(Bucket=BUCKET, Key=key)
    server.client().delete_bucket(Bucket=BUCKET)


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """The store of this machine."""
    monkeypatch.setenv("SIGHTLINE_MODELS", str(tmp_path / "mine"))
    return Store()


@pytest.fixture
def theirs(tmp_path: Path) -> Store:
    """The store of another machine, with two versions."""
    store = Store(tmp_path / "theirs")
    put(store, CONTENT[1:])
    put(store, CONTENT)
    return store


def put(store: Store, content: bytes) -> None:
    with store.adding() as folder:
        (folder / "plates.onnx").write_bytes(content)
        (folder / "plates.yaml").write_text("task: detect\n")
        (folder / "weights").mkdir()
        (folder / "weights" / "1.data").write_bytes(b"")
        record = new_record(
            name="plates",
            task="detect",
            model="plates.onnx",
            origin=Origin("onnx", "somewhere"),
            added="2026-11-26",
            licence="Apache-2.0",
        )
        store.publish(folder, record, version=None)


def models(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Call `sightline models` in this process."""
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = execute(["models", *map(str, arguments)])
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())


def push(store: Store, *names: str, to: str = f"s3://{BUCKET}/team") -> subprocess.CompletedProcess[str]:
    return models("push", *names, "--store", store.folder, "--to", to)


def pull(name: str, *, origin: str = f"s3://{BUCKET}/team") -> subprocess.CompletedProcess[str]:
    return models("pull", name, "--from", origin)


def error_of(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode in (1, 2), done.stdout
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert SECRET not in done.stdout + done.stderr
    return line


def assert_round_trip(theirs: Store, mine: Store, place: str) -> None:
    pushed = push(theirs, "plates@1", "plates@2", to=place)
    again = push(theirs, "plates", to=place)
    pulled = pull("store:plates", origin=place)
    here = pull("plates@2", origin=place)

    assert pushed.returncode == 0, pushed.stderr
    assert pushed.stdout == f"store:plates@1: in {place}\nstore:plates@2: in {place}\n"
    assert again.stdout == f"store:plates@2: in {place} (was there: the same files)\n"
    assert pulled.returncode == 0, pulled.stderr
    assert f"store:plates@2: {mine.folder / 'plates' / '2' / 'plates.onnx'} (licence: Apache-2.0)" in pulled.stdout
    assert "use it with `detect: {model: store:plates@2}`" in pulled.stdout
    assert here.stdout.startswith("store:plates@2 is here: ")
    assert mine.versions("plates") == ("2",)
    assert mine.find("plates").damage is None
    assert mine.find("plates").record == theirs.find("plates").record
    left = [path.name for path in (mine.folder / ".downloads").rglob("*") if path.is_file()]
    assert set(left) == {".lock"}


def test_versions_go_through_a_folder(theirs: Store, mine: Store, tmp_path: Path) -> None:
    assert_round_trip(theirs, mine, str(tmp_path / "shared"))


def test_versions_go_through_a_bucket(theirs: Store, mine: Store, bucket: ObjectStoreServer) -> None:
    assert_round_trip(theirs, mine, f"s3://{BUCKET}/team")

    assert sorted(bucket.objects(BUCKET)) == [
        f"team/plates/{version}/{file}"
        for version in (1, 2)
        for file in ("model.json", "plates.onnx", "plates.yaml", "weights/1.data")
    ]


def test_a_version_with_other_files_is_refused(theirs: Store, mine: Store, bucket: ObjectStoreServer) -> None:
    put(mine, b"mine")
    push(theirs, "plates@1")
    before = bucket.objects(BUCKET)

    pushed, pulled = push(mine, "plates@1"), pull("store:plates@1")

    assert "store:plates@1 is in s3://models/team with other files" in error_of(pushed)
    assert "store:plates@1 is in the store" in error_of(pulled)
    assert bucket.objects(BUCKET) == before
    assert mine.find("plates").model.read_bytes() == b"mine"


def test_a_push_that_broke_off_is_not_there_and_goes_on(theirs: Store, mine: Store, bucket: ObjectStoreServer) -> None:
    push(theirs, "plates@1")
    objects = bucket.objects(BUCKET)
    for key in objects:
        bucket.client().delete_object(Bucket=BUCKET, Key=key)
    for file in ("plates.onnx", "plates.yaml"):
        content = objects[f"team/plates/1/{file}"][0]
        bucket.client().put_object(Bucket=BUCKET, Key=f"team/plates/1/{file}", Body=content[:-1] + b"?")

    assert "there is no model 'plates' in s3://models/team" in error_of(pull("store:plates"))
    assert push(theirs, "plates@1").returncode == 0
    assert pull("store:plates").returncode == 0
    assert mine.find("plates").damage is None


def test_a_push_of_others_under_way_is_not_touched(theirs: Store, bucket: ObjectStoreServer) -> None:
    bucket.client().put_object(Bucket=BUCKET, Key="team/plates/1/.pushing", Body=b'{"plates.onnx":{}}')

    message = error_of(push(theirs, "plates@1"))

    assert "store:plates@1 with other files is being pushed to s3://models/team" in message
    assert "remove s3://models/team/plates/1/.pushing" in message
    assert list(bucket.objects(BUCKET)) == ["team/plates/1/.pushing"]


def test_a_pull_goes_on_where_it_ended(theirs: Store, mine: Store, bucket: ObjectStoreServer) -> None:
    """The first half is here already: that of the bucket is another one, and is not asked for."""
    push(theirs, "plates")
    record = theirs.find("plates").record
    half = len(CONTENT) // 2
    with mine.downloading("plates@2") as folder:
        (folder / f"{record.files['plates.onnx'].sha256}.part").write_bytes(CONTENT[:half])
    body = bytes(half) + CONTENT[half:]
    bucket.client().put_object(Bucket=BUCKET, Key="team/plates/2/plates.onnx", Body=body)

    assert pull("store:plates").returncode == 0
    assert mine.find("plates").damage is None


def test_another_content_is_refused_and_removed(theirs: Store, mine: Store, bucket: ObjectStoreServer) -> None:
    push(theirs, "plates")
    bucket.client().put_object(Bucket=BUCKET, Key="team/plates/2/plates.onnx", Body=bytes(len(CONTENT)))

    message = error_of(pull("store:plates"))

    assert "plates.onnx of store:plates@2 arrived from s3://models/team with another content" in message
    assert mine.names() == ()
    assert not list(mine.folder.rglob("*.part"))


def test_a_file_that_is_missing_or_short_is_one_error(theirs: Store, mine: Store, bucket: ObjectStoreServer) -> None:
    push(theirs, "plates")
    bucket.client().put_object(Bucket=BUCKET, Key="team/plates/2/plates.onnx", Body=b"short")
    short = error_of(pull("store:plates"))
    bucket.client().delete_object(Bucket=BUCKET, Key="team/plates/2/plates.onnx")
    missing = error_of(pull("store:plates"))
    bucket.client().put_object(Bucket=BUCKET, Key="team/plates/2/model.json", Body=b"{}")
    damaged = error_of(pull("store:plates"))

    assert "s3://models/team" in short
    assert "s3://models/team/plates/2/plates.onnx is missing" in missing
    assert "s3://models/team/plates/2/model.json is damaged" in damaged
    assert mine.names() == ()


def test_a_full_disk_is_one_error_and_the_next_pull_goes_on(
    theirs: Store, tmpfs: Path, bucket: ObjectStoreServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIGHTLINE_MODELS", str(tmpfs / "store"))
    push(theirs, "plates")

    message = error_of(pull("store:plates"))

    assert "disk is full" in message.lower()
    assert Store().names() == ()


def test_what_is_not_there_is_one_error(theirs: Store, mine: Store, bucket: ObjectStoreServer, tmp_path: Path) -> None:
    push(theirs, "plates@1")

    assert "did you mean 'plates'?" in error_of(pull("store:plate"))
    assert "no version 7 of 'plates' in s3://models/team; there: 1" in error_of(pull("plates@7"))
    assert "there is no bucket nowhere" in error_of(push(theirs, "plates", to="s3://nowhere"))
    assert "there is no model 'plates' in " in error_of(pull("store:plates", origin=str(tmp_path / "nothing")))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("pull", "store:plates"), "store:plates: say which store has it: --from FOLDER, or --from s3://BUCKET/PREFIX"),
        (("pull", "store:plates", "yunet", "--from", "x"), "give one kind at a time"),
        (("pull", "plates", "--from", "s3://models"), "or write store:plates for a model of the store s3://models"),
        (("pull", "yunet", "--from", "nowhere"), "--from nowhere: there is no such folder"),
        (("pull", "store:plates", "--from", "https://example.com"), "a store is a folder, or a bucket"),
        (("pull", "store:plates", "--from", "s3://Bad_Name"), "a bucket has 3 to 63 lower-case letters"),
        (("pull", "store:plates", "--from", "s3://key:canary@models"), "credentials are AWS_ACCESS_KEY_ID"),
    ],
)
def test_what_cannot_be_meant_is_one_error(mine: Store, arguments: tuple[str, ...], message: str) -> None:
    line = error_of(models(*arguments))

    assert message in line
    assert "canary" not in line


def test_no_server_is_one_error_with_what_to_do(
    theirs: Store, mine: Store, bucket: ObjectStoreServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")

    for done in (push(theirs, "plates"), pull("store:plates")):
        message = error_of(done)
        assert "s3://models/team does not answer as it should" in message
        assert "Debug" not in message
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    assert "there are no credentials: set AWS_ACCESS_KEY_ID" in error_of(pull("store:plates"))


def test_a_damaged_version_is_not_pushed(theirs: Store, tmp_path: Path) -> None:
    theirs.find("plates").model.write_bytes(b"x")

    assert "store:plates@2 is damaged" in error_of(push(theirs, "plates", to=str(tmp_path / "shared")))
    assert not (tmp_path / "shared").exists()
