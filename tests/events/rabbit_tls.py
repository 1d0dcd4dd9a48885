"""Certificates for tests: an authority, a server called localhost, and a client; and a stranger's authority."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest


def make_certificates(folder: Path) -> None:
    """Writes `ca`, `stranger`, `server` and `client`, each a `.pem` and a `.key`, into a folder."""
    if shutil.which("openssl") is None:
        if os.environ.get("REDRAFT_REQUIRE_SERVICES") == "1":
            pytest.fail("openssl is not installed here: the tests of amqps:// make their certificates with it")
        pytest.skip("openssl is not installed here: install it to run the tests of amqps://")
    for authority in ("ca", "stranger"):
        _openssl(folder, authority, "basicConstraints=critical,CA:TRUE", "keyUsage=critical,keyCertSign")
    for name, host in (("server", "localhost"), ("client", "client")):
        extensions = ("basicConstraints=critical,CA:FALSE", f"subjectAltName=DNS:{host}")
        _openssl(folder, name, *extensions, signed_with=("-CA", "ca.pem", "-CAkey", "ca.key"))


def _openssl(folder: Path, name: str, *extensions: str, signed_with: Sequence[str] = ()) -> None:
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    files = ["-keyout", f"{name}.key", "-out", f"{name}.pem", "-subj", f"/CN=redraft test {name}", "-days", "2"]
    added = [word for each in extensions for word in ("-addext", each)]
    subprocess.run([*command, *files, *added, *signed_with], cwd=folder, check=True, capture_output=True)
