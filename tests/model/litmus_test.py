#!/usr/bin/env python3
"""The checker of litmus.py against the verdicts of Armv8 and of C++ for classic litmus tests.

Armv8: herd with aarch64.cat; Alglave, Maranget, Tautschnig, "Herding cats" (2014); Pulte and others, "Simplifying ARM
concurrency" (2018). C++: Lahav and others, "Repairing sequential consistency in C/C++11" (2017), with load buffering.
"""
import sys

from cpp_model import cpp
from litmus import armv8, branch, cas, fence, load, reachable, store, update


def writer(first, second, between=None, order="relaxed"):
    def thread():
        yield store(first, 1)
        if between:
            yield fence(between)
        yield store(second, 1, order)

    return thread


def reader(first, second, order="relaxed", between=None, names=("a", "b")):
    """`between`: a fence, "addr" or "ctrl"."""

    def thread():
        a = yield load(first, order)
        if between == "ctrl":
            yield branch(a)
        elif between not in (None, "addr"):
            yield fence(between)
        b = yield load(second, order, addr=a if between == "addr" else None)
        return {names[0]: a, names[1]: b}

    return thread


def store_load(own, other, name, between=None, orders=("relaxed", "relaxed")):
    def thread():
        yield store(own, 1, orders[0])
        if between:
            yield fence(between)
        seen = yield load(other, orders[1])
        return {name: seen}

    return thread


def load_store(own, other, name, between=None, order="relaxed"):
    """`between`: "data" or "ctrl"."""

    def thread():
        seen = yield load(own, order)
        if between == "ctrl":
            yield branch(seen)
        yield store(other, seen if between == "data" else 1)
        return {name: seen}

    return thread


def two_writes(first, second, between=None):
    def thread():
        yield store(first, 1)
        if between:
            yield fence(between)
        yield store(second, 2)

    return thread


def increment():
    seen = yield update("x", lambda old: old + 1)
    return {f"seen{seen}": True}


def swap_load(own, other, name, order):
    def thread():
        yield update(own, lambda old: 1, order)
        seen = yield load(other, "acquire")
        return {name: seen}

    return thread


def forwarded(by):
    def thread():
        a = yield load("y")
        if by == "ctrl":
            yield branch(a)
        yield store("z", 1, addr=a if by == "addr" else None)
        c = yield load("z")
        b = yield load("x", addr=c)
        return {"a": a, "b": b, "c": c}

    return thread


def is_mp(r, _):
    return (r["a"], r["b"]) == (1, 0)


def is_sb(r, _):
    return (r["a"], r["b"]) == (0, 0)


def is_lb(r, _):
    return (r["a"], r["b"]) == (1, 1)


def is_22w(_, m):
    return (m["x"], m["y"]) == (1, 1)


def is_iriw(r, _):
    return (r["a"], r["b"], r["c"], r["d"]) == (1, 0, 1, 0)


def is_ppo(r, _):
    return (r["a"], r["b"], r["c"]) == (1, 0, 1)


XY = {"x": 0, "y": 0}
XYZ = {**XY, "z": 0}


def one_of(loc, order):
    def thread():
        yield store(loc, 1, order)

    return thread


def passed_on():
    """Another thread's relaxed update stands between the release store and the load."""
    yield update("y", lambda old: 2 if old == 1 else None)


def is_mp2(r, _):
    return (r["a"], r["b"]) == (2, 0)


def iriw(order="relaxed", between=None, stores="relaxed"):
    readers = [reader("x", "y", order, between), reader("y", "x", order, between, ("c", "d"))]
    return [one_of("x", stores), one_of("y", stores), *readers]


def wrc(middle, last):
    return [one_of("x", "relaxed"), load_store("x", "y", "c", middle), reader("y", "x", between=last)]


def is_wrc(r, _):
    return (r["c"], r["a"], r["b"]) == (1, 1, 0)


def failing_cas():
    yield cas("x", 0, 5)


# name: (memory at first, threads, the outcome in question, does Armv8 allow it, does C++ if that is different)
TESTS = {
    "MP": (XY, [writer("x", "y"), reader("y", "x")], is_mp, True),
    "MP+dmb.sy+dmb.sy": (XY, [writer("x", "y", "seq_cst"), reader("y", "x", between="seq_cst")], is_mp, False),
    "MP+dmb.st+dmb.ld": (XY, [writer("x", "y", "store"), reader("y", "x", between="acquire")], is_mp, False, True),
    "MP+rel+acq": (XY, [writer("x", "y", order="release"), reader("y", "x", "acquire")], is_mp, False),
    "MP+rel+po": (XY, [writer("x", "y", order="release"), reader("y", "x")], is_mp, True),
    "MP+po+acq": (XY, [writer("x", "y"), reader("y", "x", "acquire")], is_mp, True),
    "MP+dmb.ld+acq": (XY, [writer("x", "y", "acquire"), reader("y", "x", "acquire")], is_mp, True),
    "MP+dmb+addr": (XY, [writer("x", "y", "seq_cst"), reader("y", "x", between="addr")], is_mp, False, True),
    "MP+dmb+ctrl": (XY, [writer("x", "y", "seq_cst"), reader("y", "x", between="ctrl")], is_mp, True),
    "SB": (XY, [store_load("x", "y", "a"), store_load("y", "x", "b")], is_sb, True),
    "SB+dmbs": (XY, [store_load("x", "y", "a", "seq_cst"), store_load("y", "x", "b", "seq_cst")], is_sb, False),
    "SB+dmb.sts": (XY, [store_load("x", "y", "a", "store"), store_load("y", "x", "b", "store")], is_sb, True),
    "SB+stlr+ldar": (XY, [store_load(*at, orders=("seq_cst",) * 2) for at in ("xya", "yxb")], is_sb, False),
    "SB+stlr+ldapr": (XY, [store_load(*at, orders=("release", "acquire")) for at in ("xya", "yxb")], is_sb, True),
    "SB+ldaxr-stlxr": (XY, [swap_load(*at, "seq_cst") for at in ("xya", "yxb")], is_sb, True),
    "LB": (XY, [load_store("x", "y", "a"), load_store("y", "x", "b")], is_lb, True),
    "LB+data+po": (XY, [load_store("x", "y", "a", "data"), load_store("y", "x", "b")], is_lb, True),
    "LB+datas": (XY, [load_store("x", "y", "a", "data"), load_store("y", "x", "b", "data")], is_lb, False),
    "LB+ctrls": (XY, [load_store("x", "y", "a", "ctrl"), load_store("y", "x", "b", "ctrl")], is_lb, False),
    "LB+acqs": (XY, [load_store(*at, order="acquire") for at in ("xya", "yxb")], is_lb, False, True),
    "2+2W": (XY, [two_writes("x", "y"), two_writes("y", "x")], is_22w, True),
    "2+2W+dmb.st+po": (XY, [two_writes("x", "y", "store"), two_writes("y", "x")], is_22w, True),
    "2+2W+dmb.sts": (XY, [two_writes("x", "y", "store"), two_writes("y", "x", "store")], is_22w, False, True),
    "IRIW": (XY, iriw(), is_iriw, True),
    "IRIW+addrs": (XY, iriw(between="addr"), is_iriw, False, True),
    "IRIW+acqs": (XY, iriw("acquire"), is_iriw, False, True),
    "IRIW+stlr+ldar": (XY, iriw("seq_cst", stores="seq_cst"), is_iriw, False),
    "IRIW+rel+acq": (XY, iriw("acquire", stores="release"), is_iriw, False, True),
    "IRIW+fences": (XY, iriw(between="seq_cst"), is_iriw, False),
    "MP+rel-update+acq": (XY, [writer("x", "y", order="release"), passed_on, reader("y", "x", "acquire")], is_mp2, False),
    "WRC": (XY, wrc(None, None), is_wrc, True),
    "WRC+data+addr": (XY, wrc("data", "addr"), is_wrc, False, True),
    "WRC+data+ctrl": (XY, wrc("data", "ctrl"), is_wrc, True),
    "CoRR": ({"x": 0}, [one_of("x", "relaxed"), reader("x", "x")], is_mp, False),
    "PPOCA": (XYZ, [writer("x", "y", "seq_cst"), forwarded("ctrl")], is_ppo, True),
    "PPOAA": (XYZ, [writer("x", "y", "seq_cst"), forwarded("addr")], is_ppo, False, True),
    "two increments": ({"x": 0}, [increment, increment], lambda r, m: m["x"] == 1, False),
    "increments count": ({"x": 0}, [increment, increment], lambda r, m: m["x"] == 2, True),
    "failed CAS writes nothing": ({"x": 1}, [failing_cas], lambda r, m: m["x"] != 1, False),
}


def main():
    wrong = []
    for name, (init, threads, outcome, allowed, *in_cpp) in TESTS.items():
        for model, verdict in ((armv8, allowed), (cpp, *(in_cpp or [allowed]))):
            if (reachable(init, threads, outcome, model) is not None) != verdict:
                wrong.append(f"{name}: {model.__name__} must {'allow' if verdict else 'forbid'} the outcome")
    print("\n".join(wrong) or f"{len(TESTS)} litmus tests have the verdicts of Armv8 and of C++")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
