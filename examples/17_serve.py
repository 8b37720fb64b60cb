"""A client of ``guided serve``, in the standard library.  You will see an answer, then its chunks.

Clients of OpenAI's package reach the server with ``OpenAI(base_url="http://localhost:8000/v1", api_key="any")``.
"""

import json
import socket
import subprocess
import sys
import time
from urllib.error import URLError
from urllib.request import Request, urlopen

with socket.create_server(("127.0.0.1", 0)) as free:  # a port that is free; yours may be 8000
    port = free.getsockname()[1]
server = subprocess.Popen([sys.executable, "-m", "guided.cli", "serve", "--port", str(port), "--log-level", "warning"])
address = f"http://localhost:{port}"


def is_ready():
    try:
        return urlopen(f"{address}/ready").status == 200
    except URLError:  # not up, or still loading
        return False


try:
    while server.poll() is None and not is_ready():
        time.sleep(0.2)
    question = {"messages": [{"role": "user", "content": "Is the sky blue?"}], "temperature": 0}
    question["structured_outputs"] = {"choice": ["yes", "no"]}
    for body in (question, {**question, "stream": True}):
        with urlopen(Request(f"{address}/v1/chat/completions", json.dumps(body).encode())) as response:
            for line in response:
                print(line.decode().rstrip())
finally:
    server.terminate()  # it answers what it has begun first
    server.wait()
