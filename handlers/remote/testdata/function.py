"""A function of the handler remote, over HTTP or standard input and output.

It keeps the last version of each document in SQLite. A change is applied if its epoch is
greater than that of the stored version, or equal with an LSN that is not smaller.

    python3 function.py stdio STATE
    python3 function.py http STATE    prints its port, then answers POST / and GET /state
"""
import json
import sqlite3
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

STATE = sys.argv[2]

SCHEMA = "CREATE TABLE IF NOT EXISTS documents (key TEXT, id TEXT, epoch INT, lsn INT, document TEXT, PRIMARY KEY (key, id))"

UPSERT = """
INSERT INTO documents VALUES (?, ?, ?, ?, ?) ON CONFLICT (key, id) DO UPDATE
SET epoch = excluded.epoch, lsn = excluded.lsn, document = excluded.document
WHERE excluded.epoch > epoch OR excluded.epoch = epoch AND excluded.lsn >= lsn
"""


def database():
    db = sqlite3.connect(STATE, timeout=20)
    db.execute("PRAGMA synchronous = OFF")
    db.execute(SCHEMA)
    return db


def handle(request):
    """Returns the answer to a request."""
    results = []
    with database() as db:
        for change in request["changes"]:
            document = change["document"]
            if change["operation"] in ("delete", "expire"):
                document = None
            todo = (document or {}).get("do")
            if todo in ("retry", "skip"):
                results.append({"index": change["index"], "status": todo, "error": "asked for " + todo})
                continue
            key = json.dumps(change["partitionKey"])
            stored = json.dumps(document) if document else None
            db.execute(UPSERT, (key, change["id"], request["epoch"], change["lsn"], stored))
    return {"call": request["call"], "results": results}


def state():
    with database() as db:
        rows = db.execute("SELECT document FROM documents WHERE document IS NOT NULL ORDER BY key, id")
        return [json.loads(document) for (document,) in rows]


def wanted(request):
    """The fault that the first document asks for, to test the handler."""
    document = request["changes"][0]["document"] if request["changes"] else None
    return (document or {}).get("fault")


def stdio():
    for line in sys.stdin:
        request = json.loads(line)
        fault = wanted(request)
        if fault == "exit":
            print("leaving", file=sys.stderr)
            sys.exit(3)
        if fault == "hang":
            time.sleep(3600)
        if fault == "noise":
            print("hello")
        print(json.dumps(handle(request)) if fault != "empty" else "", flush=True)


class Server(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # or an answer on a connection in use takes 40 ms

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        fault = wanted(request)
        if fault == "hang":
            time.sleep(3600)
        status = int(fault) if fault else 200
        text = json.dumps(handle(request) if status == 200 else {"error": "asked for it"}).encode()
        self.send(status, text, {"Retry-After": "1"} if status in (429, 503) else {})

    def do_GET(self):
        self.send(200, json.dumps(state()).encode(), {})

    def send(self, status, text, headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *args):
        pass


def http():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    print(server.server_address[1], flush=True)
    server.serve_forever()


if __name__ == "__main__":
    {"stdio": stdio, "http": http}[sys.argv[1]]()
