"""Executions of small parallel programs under the memory model of Armv8, all of them.

The model is the axiomatic one of the Arm Architecture Reference Manual (B2.3, herd's aarch64.cat), without instruction
fetches, mixed sizes and exceptions. cpp_model.py has the model of C++. A thread is a generator: it yields load(), store(),
update(), fence() and branch(), and gets the value of each load. Orders have the names of C++ and mean what compilers make
of them, in the weakest form that an Armv8 compiler may choose: an acquire load is LDAPR, a seq_cst load LDAR, a release
store STLR, an update a pair of LDXR and STXR (LDAXR, STLXR), never an LSE instruction, which is stronger.

Dependencies count as far as the program declares them: `addr` of an access, the value of a store (if it is what a load
returned), branch(). What C++ compilers may break needs an order here too.
"""
import itertools

ACQUIRING = ("acquire", "acq_rel", "seq_cst")
RELEASING = ("release", "acq_rel", "seq_cst")


class Value(int):
    """What a load has returned. `event` is the load."""

    def __new__(cls, value, event):
        made = super().__new__(cls, value)
        made.event = event
        return made


class Event:
    def __init__(self, kind, loc=None, value=None, flags="", order=""):
        self.kind = kind  # R, W, F
        self.order = order  # in C++
        self.loc = loc
        self.value = value
        self.flags = flags  # A: LDAR or LDAXR, Q: LDAPR, L: STLR or STLXR; of a fence: full, ld, st
        self.addr = self.data = None  # the load that it depends on
        self.ctrl = ()
        self.pair = None  # the load of an update, at its store
        self.number = None


def load(loc, order="relaxed", addr=None):
    return ("load", loc, order, addr)


def store(loc, value, order="relaxed", addr=None):
    return ("store", loc, value, order, addr)


def update(loc, change, order="relaxed"):
    """Atomic: stores change(old), or nothing if that is None (a compare and swap that fails; it is relaxed then)."""
    return ("update", loc, change, order)


def swap(loc, new, order="relaxed"):
    return update(loc, lambda old: new, order)


def cas(loc, expected, new, order="relaxed"):
    return update(loc, lambda old: new if old == expected else None, order)


def fence(order):
    """A fence of C++, or "store": DMB ST, as libibverbs has it in front of a doorbell."""
    return ("fence", order)


def branch(value):
    """What follows depends on `value` by control."""
    return ("branch", value)


class _Unknown(Exception):
    pass


def _replay(thread, guesses):
    """Runs a thread; its loads return `guesses`. Raises _Unknown(loc) at the first load beyond them."""
    generator, events, ctrl, guesses = thread(), [], [], list(guesses)

    def read(loc, flags, order, addr=None):
        if not guesses:
            raise _Unknown(loc)
        event = Event("R", loc, guesses.pop(0), flags, order)
        event.addr, event.ctrl = getattr(addr, "event", None), tuple(ctrl)
        events.append(event)
        return Value(event.value, event)

    def write(loc, value, order, addr=None):
        event = Event("W", loc, int(value), "L" if order in RELEASING else "", order)
        event.addr, event.data = getattr(addr, "event", None), getattr(value, "event", None)
        event.ctrl = tuple(ctrl)
        events.append(event)
        return event

    answer = None
    while True:
        try:
            step = generator.send(answer)
        except StopIteration as end:
            return events, end.value or {}
        answer = None
        if step[0] == "load":
            _, loc, order, addr = step
            answer = read(loc, {"acquire": "Q", "seq_cst": "A"}.get(order, ""), order, addr)
        elif step[0] == "store":
            _, loc, value, order, addr = step
            write(loc, value, order, addr)
        elif step[0] == "update":
            _, loc, change, order = step
            answer = read(loc, "A" if order in ACQUIRING else "", order)
            new = change(int(answer))
            if new is None:
                answer.event.flags, answer.event.order = "", "relaxed"
            else:
                made = write(loc, new, order)
                made.pair = answer.event
        elif step[0] == "fence":
            events.append(Event("F", flags={"acquire": "ld", "store": "st"}.get(step[1], "full"), order=step[1]))
        else:
            ctrl.append(step[1].event)


def _traces(thread, domain):
    stack, done = [()], []
    while stack:
        guesses = stack.pop()
        try:
            done.append(_replay(thread, guesses))
        except _Unknown as unknown:
            stack.extend(guesses + (value,) for value in domain[unknown.args[0]])
    return done


def _all_traces(init, threads):
    """The traces of each thread in which every load returns a value that some store may store."""
    domain = {loc: {value} for loc, value in init.items()}
    for round in itertools.count():
        traces = [_traces(thread, domain) for thread in threads]
        before = sum(map(len, domain.values()))
        writes = sum(max(sum(e.kind == "W" for e in events) for events, _ in own) for own in traces)
        for events, _ in itertools.chain(*traces):
            for event in events:
                if event.kind == "W":
                    domain[event.loc].add(event.value)
        if before == sum(map(len, domain.values())) or round > writes:  # each round is one more store in a chain
            return traces


def acyclic(count, edges):
    after = [set() for _ in range(count)]
    entering = [0] * count
    for a, b in edges:
        if a == b:
            return False
        if b not in after[a]:
            after[a].add(b)
            entering[b] += 1
    ready = [n for n in range(count) if entering[n] == 0]
    seen = 0
    while ready:
        seen += 1
        for b in after[ready.pop()]:
            entering[b] -= 1
            if entering[b] == 0:
                ready.append(b)
    return seen == count


def _local_order(events):
    """dob, aob without rfi, and bob of one thread's events, in program order."""
    edges = set()
    for j, b in enumerate(events):
        for cause in (b.addr, b.data, b.pair):
            if cause is not None:
                edges.add((cause, b))
        if b.kind == "W":
            edges.update((cause, b) for cause in b.ctrl)
            for c in events[:j]:  # addr;po;[W]
                if c.addr is not None:
                    edges.add((c.addr, b))
        for i, a in enumerate(events[:j]):
            between = {c.flags for c in events[i + 1 : j] if c.kind == "F"}
            if a.kind == "F" or b.kind == "F":
                continue
            if (
                "full" in between
                or ("ld" in between and a.kind == "R")
                or ("st" in between and a.kind == b.kind == "W")
                or (a.kind == "R" and a.flags in ("A", "Q"))
                or (b.kind == "W" and b.flags == "L")
                or (a.kind == "W" and a.flags == "L" and b.kind == "R" and b.flags == "A")
            ):
                edges.add((a, b))
    return edges


def _orders(writes):
    """Coherence orders of the stores to one place that keep the order of each thread."""
    for order in itertools.permutations(writes):
        place = {event: at for at, event in enumerate(order)}
        if all(place[a] < place[b] for a, b in zip(writes, writes[1:]) if a.thread == b.thread):
            yield order


def executions(init, threads, model):
    """Yields (results of the threads, final memory) of every execution that the model allows."""
    for chosen in itertools.product(*_all_traces(init, threads)):
        starts = {loc: Event("W", loc, value) for loc, value in init.items()}
        events = list(starts.values())
        for event in events:
            event.thread = -1
        for thread, (own, _) in enumerate(chosen):
            for event in own:
                event.thread = thread
            events.extend(own)
        for number, event in enumerate(events):
            event.number = number
        results = {}
        for _, result in chosen:
            results.update(result)
        allowed = model(events, [own for own, _ in chosen])
        yield from _consistent(events, starts, [own for own, _ in chosen], results, allowed)


def _consistent(events, starts, threads, results, allowed):
    writes = {loc: [e for e in events if e.kind == "W" and e.loc == loc and e.thread >= 0] for loc in starts}
    reads = [e for e in events if e.kind == "R"]
    sources = []
    for read in reads:
        own_later = {e for e in threads[read.thread] if e.number > read.number}
        found = [w for w in [starts[read.loc], *writes[read.loc]] if w.value == read.value and w not in own_later]
        if not found:
            return
        sources.append(found)
    seen = set()
    for orders in itertools.product(*(list(_orders(writes[loc])) for loc in starts)):
        chain = {loc: [starts[loc], *order] for loc, order in zip(starts, orders)}
        at = {event: place for order in chain.values() for place, event in enumerate(order)}
        co = {pair for order in chain.values() for pair in itertools.combinations(order, 2)}
        final = tuple((loc, order[-1].value) for loc, order in chain.items())
        for source in itertools.product(*sources):
            rf = list(zip(source, reads))
            fr = {(r, w) for s, r in rf for w in chain[r.loc][at[s] + 1 :]}
            if final not in seen and _atomic(rf, at) and allowed(co, rf, fr):
                seen.add(final)
                yield results, dict(final)


def _atomic(rf, at):
    """Nothing comes between the load and the store of an update."""
    source = {r: s for s, r in rf}
    return all(at[source[write.pair]] + 1 == at[write] for write in at if write.pair is not None)


def armv8(events, threads):
    """A function that tells whether Armv8 allows an execution of these events."""
    count = len(events)
    local = set().union(*map(_local_order, threads))
    accesses = [[e for e in own if e.kind != "F"] for own in threads]
    po_loc = {(a, b) for own in accesses for a, b in itertools.combinations(own, 2) if a.loc == b.loc}
    numbers = lambda pairs: {(a.number, b.number) for a, b in pairs}
    outside = lambda pairs: {(a, b) for a, b in pairs if a.thread != b.thread}

    def allowed(co, rf, fr):
        if not acyclic(count, numbers(itertools.chain(po_loc, co, rf, fr))):
            return False
        order = local | outside(co) | outside(rf) | outside(fr)
        for s, r in rf:
            if s.thread != r.thread:
                continue
            if s.pair is not None and r.flags in ("A", "Q"):  # [range(rmw)];rfi;[A|Q]
                order.add((s, r))
            order.update((cause, r) for cause in (s.addr, s.data) if cause is not None)  # (addr|data);rfi
        return acyclic(count, numbers(order))

    return allowed


def reachable(init, threads, bad, model=armv8):
    """An execution whose results and final memory make bad() true; None: there is none."""
    return next(((r, m) for r, m in executions(init, threads, model) if bad(r, m)), None)
