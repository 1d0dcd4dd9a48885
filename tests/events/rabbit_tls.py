"""Certificates for tests: an authority, a server called localhost, and a client; and a stranger's authority."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest


def make_certificates(folder: Path) -> None:
    """Writes `ca`, `stranger`, `server` and `client`, each a `.pem` and a `.key`, into a folder."""
    if shutil.which("openssl") is None:
        if os.environ.get("REDRAFT_REQUIRE_SERVICES") == "1":
            pytest.fail("openssl is not installed here: the tests of amqps:// make their certificates with it")
        pytest.skip("openssl is not installed here: install it to run the tests of amqps://")
    for authority in ("ca", "stranger"):
        _openssl(folder, authority, "-x509", "-addext", "basicConstraints=critical,CA:TRUE")
    for name, alternative in (("server", "subjectAltName=DNS:localhost"), ("client", "subjectAltName=DNS:client")):
        _openssl(folder, name, "-x509", "-CA", "ca.pem", "-CAkey", "ca.key", "-addext", alternative)


def _openssl(folder: Path, name: str, *options: str) -> None:
    command = ["openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    files = ["-keyout", f"{name}.key", "-out", f"{name}.pem", "-subj", f"/CN=redraft test {name}"]
    subprocess.run([*command, *files, *options], cwd=folder, check=True, capture_output=True)
