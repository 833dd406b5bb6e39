"""smtplib: 200 threads send a message each, to a server that accepts none before it has all of them."""

import email.message
import email.policy
import os
import smtplib
import threading

COUNT = 200
answers = {}


def work(n):
    message = email.message.EmailMessage()
    message["Subject"] = f"together {COUNT}"
    message["From"], message["To"] = "one@example.org", f"{n}@example.org"
    message.set_content("Hello.\n" * n)
    with smtplib.SMTP("127.0.0.1", int(os.environ["SMTP_PORT"]), timeout=20) as smtp:
        smtp.ehlo("localhost")
        smtp.mail("one@example.org")
        smtp.rcpt(f"{n}@example.org")
        answers[n] = smtp.data(message.as_bytes(policy=email.policy.SMTP))


threads = [threading.Thread(target=work, args=(n,)) for n in range(COUNT)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert answers == dict.fromkeys(range(COUNT), (250, b"%d at once" % COUNT))
print("peak", COUNT)
