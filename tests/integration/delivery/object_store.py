"""A server that speaks S3, moto's, as a child process: what it holds is in its memory, and boto3 looks into it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import boto3

from tests.integration.delivery.servers import Server
from tests.ports import free_port

KEY, SECRET = "AKIAEXAMPLE", "canary/7041+secret"


class ObjectStoreServer(Server):
    """A store with buckets that the tests make. It checks no credentials."""

    def __init__(self, folder: Path) -> None:
        port = free_port()
        super().__init__(
            (sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)), port=port, folder=folder
        )

    @property
    def endpoint(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    def client(self) -> Any:
        """AWS's own client of it."""
        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            aws_access_key_id=KEY,
            aws_secret_access_key=SECRET,
            region_name="us-east-1",
        )

    def objects(self, bucket: str) -> dict[str, tuple[bytes, str]]:
        """Content and type of all objects of a bucket, by their keys."""
        client = self.client()
        keys = [entry["Key"] for entry in client.list_objects_v2(Bucket=bucket).get("Contents", [])]
        found = {key: client.get_object(Bucket=bucket, Key=key) for key in keys}
        return {key: (one["Body"].read(), one["ContentType"]) for key, one in found.items()}
