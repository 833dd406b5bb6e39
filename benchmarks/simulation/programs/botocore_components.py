"""Two threads ask a new session for its endpoint resolver: both make it, and the second one fails to note it."""

import threading

import botocore.session

session = botocore.session.get_session()
threads = [threading.Thread(target=session.get_component, args=("endpoint_resolver",)) for _ in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
