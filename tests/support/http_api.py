"""Plain HTTP for tests, on one connection a request, so that a test decides when it is cut."""

import http.client
import json
import socket
from dataclasses import dataclass

from support.build import PATIENCE_S


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict  # names in lower case
    body: bytes

    def json(self):
        return json.loads(self.body)

    def text(self) -> str:
        return self.body.decode()


def request(address: str, method: str, path: str, body=None, timeout: float = PATIENCE_S) -> Answer:
    """body: bytes as they are, anything else as JSON. Raises OSError when nobody answers."""
    host, port = address.rsplit(":", 1)
    connection = http.client.HTTPConnection(host, int(port), timeout=timeout)
    try:
        payload = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"} if payload is not None else {}
        connection.request(method, path, payload, headers)
        answer = connection.getresponse()
        names = {name.lower(): value for name, value in answer.getheaders()}
        return Answer(answer.status, names, answer.read())
    except http.client.HTTPException as error:
        raise ConnectionError(f"{path}: {error!r}") from error
    finally:
        connection.close()


def get(address: str, path: str, timeout: float = PATIENCE_S) -> Answer:
    return request(address, "GET", path, timeout=timeout)


def post(address: str, path: str, body, timeout: float = PATIENCE_S) -> Answer:
    return request(address, "POST", path, body, timeout)


class Stream:
    """One streamed request: iterate for the parsed `data:` of each event, "[DONE]" as text.
    close() cuts the connection at any time, as a client that goes away does. A refusal is not an
    event: look at status and body first."""

    def __init__(self, address: str, path: str, body: dict, timeout: float = PATIENCE_S):
        host, port = address.rsplit(":", 1)
        self.connection = http.client.HTTPConnection(host, int(port), timeout=timeout)
        self.path, self.payload = path, json.dumps({**body, "stream": True})
        self.answer = None
        self.connection.request("POST", path, self.payload, {"Content-Type": "application/json"})
        self.socket = self.connection.sock

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def open(self) -> "Stream":
        """Waits for the headers: they come with the first token, or with a refusal."""
        if self.answer is None:
            self.answer = self.connection.getresponse()
        return self

    @property
    def status(self) -> int:
        return self.open().answer.status

    def body(self) -> bytes:
        return self.open().answer.read()

    def __iter__(self):
        for line in self.open().answer:
            if not line.startswith(b"data: "):
                continue
            data = line[len(b"data: "):].strip()
            if data == b"[DONE]":
                yield "[DONE]"
                return
            yield json.loads(data)

    def abort(self) -> None:
        """From any thread: the client is gone, whatever another thread reads."""
        self.socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        # The socket belongs to the answer once there is one; closing both ends the connection.
        if self.answer is not None:
            self.answer.close()
        self.connection.close()


@dataclass
class Outcome:
    """What a client saw of one streamed request."""
    status: int = 0  # 0: the connection ended before an answer
    text: str = ""
    finish: str | None = None
    error: dict | None = None  # of a refusal or of an error event
    done: bool = False  # [DONE] was seen
    trace: dict | None = None
    usage: dict | None = None

    @property
    def finished(self) -> bool:
        return self.status == 200 and self.finish is not None and self.done and not self.error

    @property
    def failed_clearly(self) -> bool:
        """An error body before the first token, or an error event followed by [DONE]."""
        named = bool(self.error and self.error.get("message") and self.error.get("code"))
        return named and (self.status >= 500 or (self.status == 200 and self.done))


def collect(stream: Stream, on_text=None) -> Outcome:
    """Reads a stream of completions or chat to its end; on_text(outcome) after each chunk."""
    outcome = Outcome()
    try:
        outcome.status = stream.status
        if outcome.status != 200:
            outcome.error = json.loads(stream.body())["error"]
            return outcome
        for event in stream:
            if event == "[DONE]":
                outcome.done = True
                break
            take(outcome, event)
            if on_text is not None:
                on_text(outcome)
    except (OSError, http.client.HTTPException, ValueError) as error:
        outcome.error = {"message": f"cut: {error!r}"}
    return outcome


def take(outcome: Outcome, event: dict) -> None:
    if "error" in event:
        outcome.error = event["error"]
        return
    outcome.trace = event.get("baton", outcome.trace)
    outcome.usage = event.get("usage") or outcome.usage
    for choice in event["choices"]:
        outcome.text += choice.get("text") or choice.get("delta", {}).get("content") or ""
        outcome.finish = choice["finish_reason"] or outcome.finish
