"""The tools over HTTP: who has a token of `sightline token` is let in, with the role that goes with it."""

from __future__ import annotations

from collections.abc import Callable

import uvicorn
from anyio import to_thread
from pydantic import AnyHttpUrl

from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.transport_security import TransportSecuritySettings
from sightline.errors import ConfigurationError
from sightline.server.address import Address, is_loopback
from sightline.server.credentials import Credentials, TokenFile
from sightline.server.guard import Rates
from sightline_plugins.commands.mcp.tools import ToolOptions, server_of

PATH = "/mcp"
_LEAVE_SECONDS = 1


class Tokens:
    """Knows the tokens of the API, as the protocol asks for them: the name is the client, the role the scope.

    After five wrong tokens in a minute, whoever has sent them, further unknown ones are refused unseen for a while.
    """

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self._failures = Rates(5, seconds=60)

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return who a token belongs to; None for a wrong one."""
        found = self._credentials.identify_quickly(token)
        if found is None and self._failures.wait_seconds("") == 0:
            found = await to_thread.run_sync(self._credentials.identify, token)
            if found is None:
                self._failures.note("")
        return None if found is None else AccessToken(token=token, client_id=found.name, scopes=[str(found.role)])


def serve(options: ToolOptions, address: Address, *, say: Callable[[str], None]) -> None:
    """Serve until it is interrupted. Raises ConfigurationError when there is no token yet, or the address is taken."""
    credentials = TokenFile()
    if not credentials.entries():
        raise ConfigurationError("nobody could be let in: make a token by `sightline token add NAME`")
    listening = address.bind()
    host, port = listening.getsockname()[:2]
    url = f"http://{Address(host, port)}"
    names = [f"{name}:{port}" for name in (str(Address(host, port)).rpartition(":")[0], "localhost")]
    server = server_of(
        options,
        token_verifier=Tokens(credentials),
        auth=AuthSettings(issuer_url=AnyHttpUrl(url), resource_server_url=None),
    )
    application = server.streamable_http_app(
        streamable_http_path=PATH,
        host=host,
        transport_security=TransportSecuritySettings(
            enable_dns_rebinding_protection=is_loopback(host),
            allowed_hosts=names,
            allowed_origins=[f"http://{name}" for name in names],
        ),
    )
    say(f"listening on {url}{PATH}")
    config = uvicorn.Config(
        application,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=_LEAVE_SECONDS,
    )
    uvicorn.Server(config).run(sockets=[listening])
