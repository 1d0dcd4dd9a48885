"""The objects of Kubernetes that a folder of `deploy` describes."""

from __future__ import annotations

import shutil
import subprocess
from typing import Any

import yaml
from tests.app.node import ROOT
from tests.services import missing


def kustomized(folder: str) -> list[dict[str, Any]]:
    """Returns what `kubectl apply --kustomize` would send for a folder; skips or fails the test without kubectl."""
    if not shutil.which("kubectl"):
        missing("kubectl is not found; install it (kubernetes.io/docs/tasks/tools); it needs no cluster for this")
    command = ["kubectl", "kustomize", folder]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=170, check=False)
    assert said.returncode == 0, said.stderr
    return list(yaml.safe_load_all(said.stdout))
