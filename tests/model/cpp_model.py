"""The memory model of C++20 for executions of litmus.py: what compilers may do.

It is RC11 (Lahav and others, "Repairing sequential consistency in C/C++11", 2017) with C++20's release sequences, and with
one change: a load may see a store that depends on it only by the order of the program (load buffering), as compilers and
Armv8 allow. Plain accesses count as relaxed ones.
"""
import itertools

from litmus import ACQUIRING, RELEASING, acyclic


class Relation:
    """A relation between events, as one bit mask for each event."""

    def __init__(self, count, pairs=()):
        self.rows = [0] * count
        for a, b in pairs:
            self.rows[a.number] |= 1 << b.number

    @classmethod
    def _of(cls, rows):
        made = cls(0)
        made.rows = rows
        return made

    def __or__(self, other):
        return self._of([a | b for a, b in zip(self.rows, other.rows)])

    def __matmul__(self, other):
        """Composition: self, then other."""
        rows = []
        for row in self.rows:
            reached, at = 0, 0
            while row >> at:
                if row >> at & 1:
                    reached |= other.rows[at]
                at += 1
            rows.append(reached)
        return self._of(rows)

    def closure(self):
        rows = list(self.rows)
        for k, n in itertools.product(range(len(rows)), repeat=2):
            if rows[n] >> k & 1:
                rows[n] |= rows[k]
        return self._of(rows)

    def only(self, keep):
        """The pairs with keep(number, number)."""
        size = range(len(self.rows))
        return self._of([sum(1 << b for b in size if self.rows[a] >> b & 1 and keep(a, b)) for a in size])

    def reflexive(self):
        return self._of([row | 1 << n for n, row in enumerate(self.rows)])

    def is_irreflexive(self):
        return not any(row >> n & 1 for n, row in enumerate(self.rows))

    def pairs(self):
        return [(a, b) for a, row in enumerate(self.rows) for b in range(len(self.rows)) if row >> b & 1]


def cpp(events, threads):
    """A function that tells whether C++ allows an execution of these events."""
    count = len(events)
    relation = lambda pairs: Relation(count, pairs)
    chosen = lambda test: relation((e, e) for e in events if test(e))
    starts = [e for e in events if e.thread < 0]
    sb = relation(
        [pair for own in threads for pair in itertools.combinations(own, 2)]
        + [(start, e) for start in starts for own in threads for e in own]
    )
    fences = chosen(lambda e: e.kind == "F")
    stores = chosen(lambda e: e.kind == "W")
    loads = chosen(lambda e: e.kind == "R")
    releases = chosen(lambda e: e.kind != "R" and e.order in RELEASING)
    acquires = chosen(lambda e: e.kind != "W" and e.order in ACQUIRING)
    sc = chosen(lambda e: e.order == "seq_cst" and e.kind != "F")
    sc_fences = chosen(lambda e: e.order == "seq_cst" and e.kind == "F")
    same = lambda a, b: events[a].loc is not None and events[a].loc == events[b].loc
    other = lambda a, b: not same(a, b)
    updates = relation((e.pair, e) for e in events if e.pair is not None)
    depends = [(cause, e) for e in events for cause in (e.addr, e.data, e.pair, *e.ctrl) if cause is not None]
    before_store = releases @ (fences @ sb | chosen(lambda e: True)) @ stores
    after_load = loads @ (sb @ fences | chosen(lambda e: True)) @ acquires

    def allowed(co_pairs, rf_pairs, fr_pairs):
        if not acyclic(count, {(a.number, b.number) for a, b in itertools.chain(depends, rf_pairs)}):
            return False
        mo, rf, rb = relation(co_pairs), relation(rf_pairs), relation(fr_pairs)
        sequence = (rf @ updates).closure().reflexive()
        sw = before_store @ sequence @ rf @ after_load
        hb = (sb | sw).closure()
        eco = (rf | mo | rb).closure()
        if not hb.is_irreflexive() or not (hb @ eco).is_irreflexive():
            return False
        elsewhere = sb.only(other)
        scb = sb | elsewhere @ hb @ elsewhere | hb.only(same) | mo | rb
        ends = hb.reflexive()
        base = (sc | sc_fences @ ends) @ scb @ (sc | ends @ sc_fences)
        between = sc_fences @ (hb | hb @ eco @ hb) @ sc_fences
        return acyclic(count, (base | between).pairs())

    return allowed
