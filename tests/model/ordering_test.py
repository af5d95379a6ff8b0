#!/usr/bin/env python3
"""The places where threads, processes and NICs share memory, as litmus tests (litmus.py): neither Armv8 nor C++ has an
execution with the bad outcome, and without any single one of the orders below both have. docs/develop/memory-ordering.md has each
path by name.

A NIC is a thread too. Its stores come in order, as PCIe keeps posted writes whose relaxed ordering bit is clear; with
the bit they come in any order. Paths with a doorbell of ibverbs (fence("store")) are checked with Armv8 alone, because C++
has neither.

Usage: ordering_test.py [--only WORD]    (WORD: part of a path's name)
"""
import argparse
import re
import sys
from pathlib import Path

from cpp_model import cpp
from litmus import armv8, branch, cas, fence, load, reachable, store, swap, update

PAGE = Path(__file__).resolve().parents[2] / "docs" / "develop" / "memory-ordering.md"
PATHS = []


def path(name, file, *weaker, models=(armv8, cpp)):
    """`weaker`: the mistakes, each of which must have the bad outcome. The function gets one of them, or ""."""

    def add(function):
        PATHS.append((name, file, weaker, models, function))
        return function

    return add


def unless(mistake, name, order):
    return "relaxed" if mistake == name else order


# ---- net


@path(
    "clear-to-send",
    "src/net/protocol/clear_to_send_ring.h",
    "the sender reads the stamp without acquire",
    "the ring has relaxed ordering on PCIe",
    "the stamp is written first",
    "no barrier before the receiver's doorbell",
    models=(armv8,),
)
def clear_to_send(mistake):
    def receiver():
        yield store("staged key", 1)
        yield store("staged stamp", 1)
        if mistake != "no barrier before the receiver's doorbell":
            yield fence("store")
        yield store("doorbell", 1)

    def nic():
        rung = yield load("doorbell", "seq_cst")
        if not rung:
            return
        yield branch(rung)
        key = yield load("staged key", "seq_cst")
        stamp = yield load("staged stamp", "seq_cst")
        posted = unless(mistake, "the ring has relaxed ordering on PCIe", "release")
        if mistake == "the stamp is written first":
            yield store("stamp", stamp, posted)
            yield store("key", key, posted)
        else:
            yield store("key", key, posted)
            yield store("stamp", stamp, posted)

    def sender():
        stamp = yield load("stamp", unless(mistake, "the sender reads the stamp without acquire", "acquire"))
        key = yield load("key")
        return {"stamp": stamp, "key": key}

    init = dict.fromkeys(["staged key", "staged stamp", "doorbell", "key", "stamp"], 0)
    return init, [receiver, nic, sender], lambda r, _: r["stamp"] == 1 and r["key"] == 0


@path(
    "clear-to-send of a group",
    "src/net/protocol/clear_to_send_ring.h",
    "only the first entry's stamp is read",
    "the second stamp is read without acquire",
)
def group(mistake):
    def entry(number):  # the two may be written in any order, but each of them is one PCIe write
        def nic():
            yield store(f"key {number}", 1)
            yield store(f"stamp {number}", 1, "release")

        return nic

    def sender():
        first = yield load("stamp 1", "acquire")
        second = 1
        if mistake != "only the first entry's stamp is read":
            second = yield load("stamp 2", unless(mistake, "the second stamp is read without acquire", "acquire"))
        if not (first and second):
            return {"whole": 0, "keys": 0}
        one = yield load("key 1")
        two = yield load("key 2")
        return {"whole": 1, "keys": one + two}

    init = dict.fromkeys(["key 1", "stamp 1", "key 2", "stamp 2"], 0)
    return init, [entry(1), entry(2), sender], lambda r, _: r["whole"] and r["keys"] != 2


@path(
    "slot of the ring is used again",
    "src/net/sender/send_connection.h",
    "a field that does not go into the work request is read after the doorbell",
    models=(armv8,),
)
def slot_again(mistake):
    late = mistake.startswith("a field")

    def sender():
        stamp = yield load("stamp", "acquire")
        key = 1 if late else (yield load("key"))
        yield store("work request", key)
        yield fence("store")  # ibv_post_send
        yield store("doorbell", 1)
        if late:
            key = yield load("key")
        return {"stamp": stamp, "key": key}

    def receiver():  # its NIC has delivered the message: the receiver posts the next receive in this slot
        seen = yield load("doorbell", "acquire")
        if seen:
            yield branch(seen)
            yield store("key", 2)
            yield store("stamp", 2, "release")

    init = {"stamp": 1, "key": 1, "work request": 0, "doorbell": 0}
    return init, [sender, receiver], lambda r, _: r["stamp"] == 1 and r["key"] == 2


@path(
    "bell of a connection",
    "src/verbs/async_events.h",
    "ring() writes nothing if the bell has rung already",
    "ring() is relaxed",
    "take() is relaxed",
)
def bell(mistake):
    def watcher():
        yield store("news", 1, "release")
        order = unless(mistake, "ring() is relaxed", "release")
        if mistake.startswith("ring() writes nothing"):
            yield cas("bell", 0, 1, order)
        else:
            yield update("bell", lambda old: old or 1, order)

    def owner():
        yield swap("bell", 0, unless(mistake, "take() is relaxed", "acq_rel"))
        news = yield load("news", unless(mistake, "take() is relaxed", "acquire"))
        return {"news": news}

    init = {"news": 0, "bell": 1}
    return init, [watcher, owner], lambda r, memory: not r["news"] and not memory["bell"]


# ---- software device


@path(
    "completion ring: publish",
    "softdev/queues/completion_ring.h",
    "the tail is stored relaxed",
    "the tail is loaded relaxed",
)
def completion(mistake):
    def pusher():
        yield store("payload", 1)
        yield store("entry", 1)
        yield store("tail", 1, unless(mistake, "the tail is stored relaxed", "release"))

    def owner():
        tail = yield load("tail", unless(mistake, "the tail is loaded relaxed", "acquire"))
        entry = yield load("entry")
        payload = yield load("payload")
        return {"tail": tail, "both": entry + payload}

    return {"payload": 0, "entry": 0, "tail": 0}, [pusher, owner], lambda r, _: r["tail"] and r["both"] != 2


@path(
    "completion ring: reuse",
    "softdev/queues/completion_ring.h",
    "the head is stored relaxed",
    "the head is loaded relaxed, and a compiler drops the dependence",
)
def ring_again(mistake):
    def owner():
        entry = yield load("entry")
        yield store("head", 1, unless(mistake, "the head is stored relaxed", "release"))
        return {"entry": entry}

    def pusher():
        free = yield load("head", "relaxed" if mistake.startswith("the head is loaded") else "acquire")
        if free:
            yield store("entry", 2)

    return {"entry": 1, "head": 0}, [owner, pusher], lambda r, _: r["entry"] == 2


@path(
    "arming a completion queue",
    "softdev/queues/completion_ring.cc",
    "no fence in announce()",
    "no fence in reqNotifyCq()",
)
def arming(mistake):
    def pusher():
        yield store("tail", 1, "release")
        if mistake != "no fence in announce()":
            yield fence("seq_cst")
        armed = yield load("armed")
        return {"armed": armed}

    def owner():
        yield swap("armed", 1, "seq_cst")
        if mistake != "no fence in reqNotifyCq()":
            yield fence("seq_cst")
        tail = yield load("tail", "acquire")
        return {"tail": tail}

    return {"tail": 0, "armed": 0}, [pusher, owner], lambda r, _: not r["armed"] and not r["tail"]


@path(
    "receive posted beside an error",
    "softdev/engine/datapath.cc",
    "postRecv() loads the state with acquire only",
    "enterError() loads the tail with acquire only",
)
def post_beside_error(mistake):
    def owner():
        yield store("tail", 1, "seq_cst")
        state = yield load("state", "acquire" if mistake.startswith("postRecv") else "seq_cst")
        return {"state": state}

    def peer():
        yield swap("state", 1, "seq_cst")
        tail = yield load("tail", "acquire" if mistake.startswith("enterError") else "seq_cst")
        return {"tail": tail}

    return {"tail": 0, "state": 0}, [owner, peer], lambda r, _: not r["state"] and not r["tail"]


@path("shared lock", "softdev/fabric/shared_lock.h", "unlock is relaxed", "lock is relaxed")
def shared_lock(mistake):
    def holder(number, name):
        def thread():
            taken = yield cas("lock", 0, number, unless(mistake, "lock is relaxed", "seq_cst"))
            if taken:
                return {name: 0}
            one = yield load("one")
            two = yield load("two")
            yield store("one", 1)
            yield store("two", 1)
            yield store("lock", 0, unless(mistake, "unlock is relaxed", "release"))
            return {name: one != two}

        return thread

    init = {"lock": 0, "one": 0, "two": 0}
    return init, [holder(1, "first"), holder(2, "second")], lambda r, _: r["first"] or r["second"]


@path(
    "memory key",
    "softdev/memory/keys.h",
    "the owner stores the fields relaxed",
    "the sender loads the fields relaxed",
    "the key is stored relaxed",
)
def memory_key(mistake):
    def owner():  # gives up region 1; another region gets the record
        fields = unless(mistake, "the owner stores the fields relaxed", "release")
        yield store("key", 0, "seq_cst")
        yield store("base", 2, fields)
        yield store("address", 2, fields)
        yield store("key", 2, unless(mistake, "the key is stored relaxed", "seq_cst"))

    def sender():
        fields = unless(mistake, "the sender loads the fields relaxed", "acquire")
        key = yield load("key", "seq_cst")
        base = yield load("base", fields)
        address = yield load("address", fields)
        again = yield load("key")
        return {"key": key, "again": again, "fields": {int(base), int(address)}}

    def bad(r, _):
        return r["key"] and r["again"] == r["key"] and r["fields"] != {r["key"]}

    return {"key": 1, "base": 1, "address": 1}, [owner, sender], bad


@path(
    "write into a process by the kernel",
    "softdev/memory/mover.h",
    "the last word is a piece of the local list only",
)
def kernel_copy(mistake):
    def kernel():
        yield store("body", 1)
        if not mistake:  # the pages of a remote piece are unpinned: an atomic operation with full order
            yield fence("seq_cst")
        yield store("last word", 1)

    def poller():
        last = yield load("last word", "acquire")
        body = yield load("body")
        return {"last": last, "body": body}

    return {"body": 0, "last word": 0}, [kernel, poller], lambda r, _: r["last"] and not r["body"]


@path(
    "write into mapped memory",
    "softdev/memory/mover.h",
    "the last word of a block is stored plain",
)
def mapped_copy(mistake):
    def sender():
        yield store("one", 1)
        yield store("two", 1)
        yield store("last word", 1, unless(mistake, "the last word of a block is stored plain", "release"))

    def poller():
        last = yield load("last word", "acquire")
        one = yield load("one")
        two = yield load("two")
        return {"last": last, "both": one + two}

    return {"one": 0, "two": 0, "last word": 0}, [sender, poller], lambda r, _: r["last"] and r["both"] != 2


@path(
    "doorbell with a full queue",
    "softdev/fabric/doorbell.cc",
    "no fence in ring()",
    "no fence in drain()",
)
def doorbell(mistake):
    def pusher():  # a full queue takes no further ring
        yield update("events", lambda old: old + 1, "acq_rel")
        if mistake != "no fence in ring()":
            yield fence("seq_cst")
        full = yield load("queue is full")  # without a lock
        return {"full": full}

    def reader():
        yield store("queue is full", 0)
        if mistake != "no fence in drain()":
            yield fence("seq_cst")
        events = yield load("events", "acquire")
        return {"events": events}

    return {"events": 0, "queue is full": 1}, [pusher, reader], lambda r, _: r["full"] and not r["events"]


@path(
    "agent: request",
    "softdev/memory/agent.cc",
    "posted is counted relaxed",
    "posted is loaded relaxed",
)
def agent_request(mistake):
    def poster():
        yield store("pieces", 1)
        yield store("claim", 1)  # offered
        yield update("posted", lambda old: 1, unless(mistake, "posted is counted relaxed", "release"))

    def agent():
        posted = yield load("posted", unless(mistake, "posted is loaded relaxed", "acquire"))
        if not posted:
            return {"claim": 1, "pieces": 1}
        yield branch(posted)
        claim = yield cas("claim", 1, 2, "acq_rel")
        pieces = yield load("pieces")
        return {"claim": claim, "pieces": pieces}

    init = {"pieces": 0, "claim": 0, "posted": 0}
    return init, [poster, agent], lambda r, _: not r["claim"] or not r["pieces"]


@path("agent: answer", "softdev/memory/agent_client.cc", "done is stored relaxed", "done is loaded relaxed")
def agent_answer(mistake):
    def agent():
        yield store("bounce", 1)
        yield store("moved", 1)
        yield store("done", 1, unless(mistake, "done is stored relaxed", "release"))

    def poster():
        done = yield load("done", unless(mistake, "done is loaded relaxed", "acquire"))
        moved = yield load("moved")
        bounce = yield load("bounce")
        return {"done": done, "both": moved + bounce}

    return {"bounce": 0, "moved": 0, "done": 0}, [agent, poster], lambda r, _: r["done"] and r["both"] != 2


@path(
    "agent: withdrawal",
    "softdev/memory/agent_client.cc",
    "the claim is a load and a store",
)
def withdrawal(mistake):
    def take(number, name):
        def thread():
            if mistake:
                seen = yield load("claim", "acquire")
                if not seen:
                    yield branch(seen)
                    yield store("claim", number, "release")
            else:
                seen = yield cas("claim", 0, number, "acq_rel")
            return {name: not seen}

        return thread

    return {"claim": 0}, [take(1, "taken"), take(2, "withdrawn")], lambda r, _: r["taken"] and r["withdrawn"]


@path(
    "completion taken out of turn",
    "softdev/queues/responder.cc",
    "the entry is made void by a plain store",
    "the entry's kind is loaded plain",
)
def void_entry(mistake):
    def poller():
        yield store("polled", 1, "release")
        yield store("void", 1, unless(mistake, "the entry is made void by a plain store", "release"))

    def repairer():  # has taken the responder's lock from a process that died
        void = yield load("void", unless(mistake, "the entry's kind is loaded plain", "acquire"))
        polled = yield load("polled", "acquire")
        return {"void": void, "polled": polled}

    return {"polled": 0, "void": 0}, [poller, repairer], lambda r, _: r["void"] and not r["polled"]


# ---- record


@path(
    "record: block with a sequence",
    "src/record/process_record.h",
    "no fence after the odd number",
    "no fence before the even number",
    "no fence after the first look",
    "no fence before the second look",
)
def sequence(mistake):
    def writer():
        yield store("sequence", 1)
        if mistake != "no fence after the odd number":
            yield fence("acq_rel")
        yield store("one", 1)
        yield store("two", 1)
        if mistake != "no fence before the even number":
            yield fence("acq_rel")
        yield store("sequence", 2)

    def reader():
        before = yield load("sequence")
        if mistake != "no fence after the first look":
            yield fence("acq_rel")
        one = yield load("one")
        two = yield load("two")
        if mistake != "no fence before the second look":
            yield fence("acq_rel")
        after = yield load("sequence")
        return {"before": before, "after": after, "one": one, "two": two}

    def bad(r, _):
        accepted = r["before"] == r["after"] and r["before"] % 2 == 0
        return accepted and (r["one"] != r["two"] or r["one"] != r["before"] // 2)

    return {"sequence": 0, "one": 0, "two": 0}, [writer, reader], bad


@path(
    "record: event",
    "src/record/process_record.cc",
    "no fence after the number is cleared",
    "no fence before the number is stored",
    "no fence between the two copies",
    "one copy is enough",
)
def event(mistake):
    def writer():
        yield store("number", 0)
        if mistake != "no fence after the number is cleared":
            yield fence("acq_rel")
        yield store("text", 2)
        if mistake != "no fence before the number is stored":
            yield fence("acq_rel")
        yield store("number", 2)

    def reader():
        copies = []
        for copy in range(2):
            number = yield load("number")
            text = yield load("text")
            copies.append((int(number), int(text)))
            if copy == 0 and mistake == "one copy is enough":
                break
            if copy == 0 and mistake != "no fence between the two copies":
                yield fence("acq_rel")
        return {"first": copies[0], "last": copies[-1]}

    def bad(r, _):
        number, text = r["last"]
        return r["first"] == r["last"] and number and number != text

    return {"number": 1, "text": 1}, [writer, reader], bad


@path(
    "record: first use",
    "src/record/process_record.cc",
    "the writer has no fence before the magic",
    "the reader has no fence after the magic",
)
def magic(mistake):
    def writer():
        yield store("header", 1)
        if not mistake.startswith("the writer"):
            yield fence("acq_rel")
        yield store("magic", 1)

    def reader():
        seen = yield load("magic")
        if not mistake.startswith("the reader"):
            yield fence("acq_rel")
        header = yield load("header")
        return {"magic": seen, "header": header}

    return {"header": 0, "magic": 0}, [writer, reader], lambda r, _: r["magic"] and not r["header"]


# ---- perf


@path(
    "gate between threads and the plugin",
    "src/perf/job/worker.h",
    "a thread that enters loads `closed_` relaxed",
    "close() loads `inside_` with acquire only",
)
def gate(mistake):
    def caller():
        yield update("inside", lambda old: 1, "seq_cst")
        closed = yield load("closed", unless(mistake, "a thread that enters loads `closed_` relaxed", "seq_cst"))
        return {"closed": closed}

    def closer():
        yield store("closed", 1, "seq_cst")
        inside = yield load("inside", "acquire" if mistake.startswith("close()") else "seq_cst")
        return {"inside": inside}

    return {"inside": 0, "closed": 0}, [caller, closer], lambda r, _: not r["closed"] and not r["inside"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    only = parser.parse_args().only
    wrong, mistakes = [], 0
    page = PAGE.read_text()
    for name, file, weaker, models, function in PATHS:
        if only not in name:
            continue
        mistakes += len(weaker)
        if not (PAGE.parents[2] / file).exists():
            wrong.append(f"{name}: there is no file {file}")
        if not re.search(r"^\|.*\| " + re.escape(name) + r" \|$", page, re.MULTILINE):
            wrong.append(f"{name}: no row of {PAGE.name} ends with this name")
        for model in models:
            found = reachable(*function(""), model)
            if found is not None:
                wrong.append(f"{name} ({file}): {model.__name__} allows {found}")
            for mistake in weaker:
                if reachable(*function(mistake), model) is None:
                    wrong.append(f"{name} ({file}): {model.__name__} does not find the mistake: {mistake}")
    print("\n".join(wrong) or f"{len(PATHS)} paths are in order, and {mistakes} mistakes are found")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
