"""A notification server: clients wait for messages on topics, publishers post them.

    python -m examples.notifications --port 8000                          a server; then open http://127.0.0.1:8000/
    curl -d 'hello' http://127.0.0.1:8000/topics/news                     publish
    curl -N 'http://127.0.0.1:8000/events?topic=news'                     wait: by server-sent events,
    curl 'http://127.0.0.1:8000/poll?topic=news&after=ID'                 by long poll,
    (echo SUB news; cat) | nc 127.0.0.1 8001                              by lines over TCP, or by WebSocket at /socket

    python -m examples.notifications --port 8002 --redis redis://127.0.0.1       one of several that Redis joins
    python -m examples.notifications.client --clients 10000 --kind sse --url http://127.0.0.1:8000    latencies
    python -m examples.notifications.chaos --seconds 300                  kill Redis, servers and clients, look for gaps

Delivery is at least once to those connected. A client that comes back with the last id it has seen gets what it has
missed, as far as the bounded history reaches, or is told of a gap. A slow client is cut off, to come back so, or loses
its oldest messages (`--slow drop`); either is counted. The HTTP endpoints need `dhaga[serve]`; of the rest only
WebSocket (wsproto) and Redis need more. Without tokens the guard is the browser: only a number or localhost will do as
the Host, and no page of another site as the Origin.

Modules, from low to high: runtime, messages, history, broker, socket_clients, tokens, service, subscriptions; the
endpoints line_protocol, sse, websocket, web; redis_link; server; the programs.
"""
