"""Clients of HTTP services: 20 threads, and a server that answers nobody until all of them wait."""

import os
import sys
import threading

COUNT = 20
url = os.environ["HTTP_URL"]
path = f"/together?count={COUNT}"
name = sys.argv[1]


def azure():
    from azure.core import PipelineClient
    from azure.core.rest import HttpRequest

    client = PipelineClient(url)
    return lambda: client.send_request(HttpRequest("GET", url + path)).json()


def docker():
    from docker import APIClient

    client = APIClient(base_url=url, version="1.44", timeout=20)
    return lambda: client._result(client._get(client._url(path)), json=True)


def elastic():
    from elasticsearch import Elasticsearch

    client = Elasticsearch(url, connections_per_node=COUNT)
    return lambda: dict(client.perform_request("GET", path).body)


def google():
    from google.auth.credentials import AnonymousCredentials
    from google.auth.transport.requests import AuthorizedSession

    client = AuthorizedSession(AnonymousCredentials())
    return lambda: client.get(url + path).json()


def httplib2():
    import json

    import httplib2

    return lambda: json.loads(httplib2.Http().request(url + path)[1])


def kubernetes():
    import json

    from kubernetes.client import ApiClient, Configuration

    configuration = Configuration(host=url)
    configuration.connection_pool_maxsize = COUNT
    client = ApiClient(configuration)
    return lambda: json.loads(client.call_api("GET", url + path).read())


def openai():
    from openai import OpenAI

    client = OpenAI(base_url=url, api_key="none", timeout=20, max_retries=0)
    return lambda: client.get(path, cast_to=object)


def opensearch():
    from opensearchpy import OpenSearch

    client = OpenSearch([url], maxsize=COUNT, timeout=20)
    return lambda: client.transport.perform_request("GET", path)


def pycurl():
    """As it waits in C: offloaded, by a pool with a thread for each call."""
    import io
    import json

    import pycurl

    from dhaga import OffloadPool

    pool = OffloadPool("curl", threads=COUNT)

    def get():
        body, curl = io.BytesIO(), pycurl.Curl()
        curl.setopt(curl.URL, url + path)
        curl.setopt(curl.WRITEDATA, body)
        pool.offload(curl.perform)
        curl.close()
        return json.loads(body.getvalue())

    return get


def urllib():
    import json
    from urllib.request import urlopen

    return lambda: json.load(urlopen(url + path))


def zeep():
    import json

    from zeep.transports import Transport

    client = Transport(operation_timeout=20)
    return lambda: json.loads(client.get(url + path, {}, {}).content)


get = globals()[name]()
answers = []
threads = [threading.Thread(target=lambda: answers.append(get())) for _ in range(COUNT)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert answers == [{"at once": COUNT}] * COUNT, answers
print("peak", COUNT)
