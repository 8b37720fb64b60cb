"""Start ``guided serve`` on the embedded model and let each client talk to it: ``python tests/clients/run.py FOLDER``.

``FOLDER`` has a virtual environment for each client, named like its module here; `make test-clients` makes them.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

HERE = Path(__file__).resolve().parent


def main(folder: Path) -> int:
    """Return 0 where all checks of all clients hold."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "guided.cli", "serve", "--port", str(port), "--log-level", "warning"]
    server = subprocess.Popen([*command, "--served-model-name", "gpt-4o-mini"], cwd=HERE.parents[1])
    failed = []
    try:
        while not is_ready(port):
            if server.poll() is not None:
                return 1
            time.sleep(0.3)
        for script in sorted(HERE.glob("with_*.py")):
            python = folder / script.stem.removeprefix("with_") / "bin" / "python"
            done = subprocess.run([python, script, f"http://127.0.0.1:{port}/v1"], check=False)
            failed += [script.stem] if done.returncode else []
    finally:
        server.terminate()
        server.wait()
    print(f"failed: {', '.join(failed)}" if failed else "all clients: ok")
    return len(failed)


def is_ready(port: int) -> bool:
    try:
        return bool(urlopen(f"http://127.0.0.1:{port}/ready").status == 200)
    except URLError:
        return False


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
