"""paramiko: 200 commands at once, over ten connections; none ends before all have begun; then SFTP by ten threads."""

import os
import threading

import paramiko

CONNECTIONS, COMMANDS = 10, 20
folder = os.environ["SSH_FOLDER"]
begun = threading.Barrier(CONNECTIONS * COMMANDS)
answers = {}


def connect():
    client = paramiko.SSHClient()
    client.load_host_keys(f"{folder}/known_hosts")
    client.connect(
        "127.0.0.1",
        int(os.environ["SSH_PORT"]),
        os.environ["SSH_USER"],
        key_filename=f"{folder}/user",
        allow_agent=False,
        look_for_keys=False,
    )
    return client


def command(client, n):
    stdin, stdout, stderr = client.exec_command(f"echo begun; read number; echo $(({n} * number)); exit 3")
    assert stdout.readline() == "begun\n"
    begun.wait()
    stdin.write(f"{n}\n")
    stdin.flush()
    answers[n] = (int(stdout.read()), stderr.read(), stdout.channel.recv_exit_status())


def work(n):
    with connect() as client:
        threads = [
            threading.Thread(target=command, args=(client, n + CONNECTIONS * index)) for index in range(COMMANDS)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with client.open_sftp() as sftp:
            sftp.put(__file__, f"{folder}/copy-{n}")
            with sftp.open(f"{folder}/copy-{n}") as copy, open(__file__, "rb") as source:
                assert copy.read() == source.read()


threads = [threading.Thread(target=work, args=(n,)) for n in range(CONNECTIONS)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert answers == {n: (n * n, b"", 3) for n in range(CONNECTIONS * COMMANDS)}
print("peak", len(answers))
