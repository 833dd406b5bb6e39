"""subprocess: 200 threads talk to a child each, none of which ends before all have begun."""

import subprocess
import threading

COUNT = 200
begun = threading.Barrier(COUNT)
answers = {}


def work(n):
    child = subprocess.Popen(
        ["/bin/sh", "-c", f"echo begun; read number; echo $(({n} * number)); echo error >&2; exit 3"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert child.stdout.readline() == "begun\n"
    begun.wait()
    out, err = child.communicate(f"{n}\n", timeout=60)
    answers[n] = (int(out), err, child.returncode)


threads = [threading.Thread(target=work, args=(n,)) for n in range(COUNT)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert answers == {n: (n * n, "error\n", 3) for n in range(COUNT)}
try:
    subprocess.run(["/bin/sleep", "100"], timeout=0.05)
except subprocess.TimeoutExpired:
    assert subprocess.check_output(["/bin/echo", "done"]) == b"done\n"
print("peak", COUNT)
