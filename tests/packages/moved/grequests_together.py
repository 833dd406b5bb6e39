"""grequests: 100 requests of one map, and of one imap, to a server that answers nobody until all of them wait."""

import os

import grequests

COUNT = 100
url = os.environ["HTTP_URL"]


def requests(path):
    return (grequests.get(f"{url}/{path}", params={"count": COUNT}, timeout=20) for _ in range(COUNT))


answers = [answer.json() for answer in grequests.map(requests("map"))]
assert answers == [{"at once": COUNT}] * COUNT
answers = [answer.json() for answer in grequests.imap(requests("imap"), size=COUNT)]
assert answers == [{"at once": COUNT}] * COUNT
failed = grequests.map([grequests.get("http://127.0.0.1:1/")], exception_handler=lambda _, error: type(error).__name__)
assert failed == ["ConnectionError"]
print("peak", COUNT)
