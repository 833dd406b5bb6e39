"""boto3: 200 threads put objects into S3 over one client; then all of them wait for objects at once."""

import os
import threading

import boto3
import botocore.config

COUNT = 200
client = boto3.client(
    "s3",
    endpoint_url=os.environ["S3_URL"],
    region_name="us-east-1",
    aws_access_key_id="one",
    aws_secret_access_key="two",
    config=botocore.config.Config(max_pool_connections=COUNT, retries={"total_max_attempts": 1}),
)
client.create_bucket(Bucket="packages")
client.put_object(Bucket="packages", Key="together-200", Body=b"all of them")
answers = {}


def work(n):
    client.put_object(Bucket="packages", Key=f"object-{n}", Body=str(n).encode() * 1000)
    answers[n] = client.get_object(Bucket="packages", Key="together-200")["Body"].read()


threads = [threading.Thread(target=work, args=(n,)) for n in range(COUNT)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert answers == dict.fromkeys(range(COUNT), b"all of them")
pages = client.get_paginator("list_objects_v2").paginate(Bucket="packages", Prefix="object-")
sizes = {item["Key"]: item["Size"] for page in pages for item in page["Contents"]}
assert sizes == {f"object-{n}": len(str(n)) * 1000 for n in range(COUNT)}
client.upload_file(__file__, "packages", "program")  # s3transfer: a pool of threads
with open(__file__, "rb") as program:
    assert client.get_object(Bucket="packages", Key="program")["Body"].read() == program.read()
client.close()
print("peak", COUNT)
