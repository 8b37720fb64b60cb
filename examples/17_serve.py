"""A server of Chat Completions in one class of the standard library.  You will see an answer, then its chunks.

Clients of OpenAI's package reach it with ``OpenAI(base_url="http://127.0.0.1:8000/v1", api_key="any")``.
"""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.request import Request, urlopen

import guided

guide = guided.demo()


class ChatCompletions(BaseHTTPRequestHandler):
    def do_POST(self):
        try:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"] or 0)))
            answer = guide.complete(body)  # a body that cannot be honoured is refused before the first token
        except (guided.RequestError, guided.TemplateError) as error:
            self.reply(400, {"error": {"message": str(error), "param": error.place, "type": "invalid_request_error"}})
            return
        except ValueError as error:
            self.reply(400, {"error": {"message": f"not JSON: {error}", "type": "invalid_request_error"}})
            return
        except guided.GuidedError as error:
            self.reply(500, {"error": {"message": str(error), "type": "server_error"}})
            return
        if body.get("stream"):
            self.begin(200, "text/event-stream")
            for chunk in answer:
                self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
            self.wfile.write(b"data: [DONE]\n\n")
        else:
            self.reply(200, answer)

    def reply(self, status, value):
        self.begin(status, "application/json")
        self.wfile.write(json.dumps(value).encode())

    def log_message(self, *_):
        pass

    def begin(self, status, kind):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.end_headers()


server = ThreadingHTTPServer(("127.0.0.1", 0), ChatCompletions)  # a port that is free; yours may be 8000
threading.Thread(target=server.serve_forever, daemon=True).start()
address = f"http://127.0.0.1:{server.server_port}/v1/chat/completions"
question = {"messages": [{"role": "user", "content": "Is the sky blue?"}], "temperature": 0}
question["structured_outputs"] = {"choice": ["yes", "no"]}
for body in (question, {**question, "stream": True}):
    with urlopen(Request(address, json.dumps(body).encode(), method="POST")) as response:
        for line in response:
            print(line.decode().rstrip())
server.shutdown()
