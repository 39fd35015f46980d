"""A function that keeps a journal, and waits in each change until the killer lets it go on."""
import os
import socket

journal = os.open(os.environ["JOURNAL"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
killer = socket.create_connection(("127.0.0.1", int(os.environ["KILLER"])))


def handle(changes):
    for change in changes:
        named = f"{os.getpid()} {change.partition_key[0]} {change.document['number']}\n"
        os.write(journal, f"begin {named}".encode())
        killer.sendall(f"{os.getpid()}\n".encode())
        killer.recv(1)
        os.write(journal, f"end {named}".encode())
