"""A provider of OpenID Connect that signs whatever a test wants, and forgets no code; it lets everybody in at once."""

from __future__ import annotations

import hmac
import json
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from joserfc import jwt
from joserfc.jwk import KeySet, RSAKey

CLIENT: Final = "redraft"
API: Final = "redraft-api"


class LyingProvider:
    """A provider at `issuer`. `wrong` are claims that its next tokens have otherwise than they should.

    It tells its keys once it `may_answer`; `asked` is set when somebody waits for them.
    """

    def __init__(self, issuer: str) -> None:
        self.issuer = issuer
        self.key = _new_key("one")
        self.wrong: dict[str, Any] = {}
        self.sign = self.signed
        self.nonce = ""
        self.asked = Event()
        self.may_answer = Event()
        self.may_answer.set()

    def claims(self, audience: str) -> dict[str, Any]:
        now = int(time.time())
        right = {"iss": self.issuer, "sub": "u-1", "aud": audience, "iat": now, "exp": now + 300, "nonce": self.nonce}
        known = {**right, "preferred_username": "ann", "groups": ["editors"], **self.wrong}
        return {name: value for name, value in known.items() if value is not None}

    def signed(self, claims: dict[str, Any]) -> str:
        return jwt.encode({"alg": "RS256", "kid": self.key.kid}, claims, self.key)

    def signed_by_another_key(self, claims: dict[str, Any]) -> str:
        return jwt.encode({"alg": "RS256", "kid": self.key.kid}, claims, _new_key("one"))

    def signed_by_a_key_without_a_name(self, claims: dict[str, Any]) -> str:
        return jwt.encode({"alg": "RS256", "kid": "nobody"}, claims, _new_key("nobody"))

    def signed_by_nobody(self, claims: dict[str, Any]) -> str:
        signed = jwt.encode({"alg": "RS256"}, claims, self.key).split(".")
        return f"eyJhbGciOiJub25lIn0.{signed[1]}."

    def signed_with_the_public_key_as_a_secret(self, claims: dict[str, Any]) -> str:
        parts = [_encoded(json.dumps(each).encode()) for each in ({"alg": "HS256", "kid": self.key.kid}, claims)]
        made = hmac.new(self.key.as_pem(private=False), ".".join(parts).encode(), "sha256").digest()
        return ".".join([*parts, _encoded(made)])

    def renew(self) -> None:
        """Takes another key from now on."""
        self.key = _new_key("two")

    def answer(self, path: str) -> dict[str, Any]:
        if path == "/jwks":
            self.asked.set()
            self.may_answer.wait()
            return dict(KeySet([self.key]).as_dict(private=False))
        if path == "/token":
            token = self.sign(self.claims(CLIENT))
            return {"access_token": "opaque", "token_type": "Bearer", "expires_in": 300, "id_token": token}
        own = {"authorization_endpoint": "/authorize", "token_endpoint": "/token", "jwks_uri": "/jwks"}
        return {"issuer": self.issuer, **{name: self.issuer + each for name, each in own.items()}}


@contextmanager
def lying_provider() -> Iterator[LyingProvider]:
    """Yields a provider that answers until the block ends."""
    found: list[LyingProvider] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path, query = urlsplit(self.path).path, parse_qs(urlsplit(self.path).query)
            if path != "/authorize":
                self._send(found[0].answer(path))
                return
            found[0].nonce = query["nonce"][0]
            self.send_response(303)
            self.send_header("Location", f"{query['redirect_uri'][0]}?code=c&state={query['state'][0]}")
            self.end_headers()

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self._send(found[0].answer(self.path))

        def _send(self, told: dict[str, Any]) -> None:
            body = json.dumps(told).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *told: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        found.append(LyingProvider(f"http://127.0.0.1:{server.server_port}"))
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield found[0]
        finally:
            server.shutdown()
            thread.join()


def _encoded(content: bytes) -> str:
    return urlsafe_b64encode(content).decode().rstrip("=")


def _new_key(kid: str) -> RSAKey:
    return RSAKey.generate_key(2048, {"kid": kid, "use": "sig"})
