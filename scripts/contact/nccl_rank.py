"""One rank of a job of real NCCL, through ctypes: nothing is compiled on the machine. Verifies every byte, measures, and ends with one line
of JSON: {"nccl": 23007, "gpu": "NVIDIA H100 ...", "verified": [...], "busbw": {"1048576": 12.3}, "one_sided": true}; or {"wrong": "what"}.

nccl_rank.py --nccl libnccl.so.2 --cuda libcudart.so --id FILE --rank R --ranks N [--gpu 0] [--max BYTES] [--one-sided]
"""
import argparse
import ctypes
import json
import os
import pathlib
import sys
import time

INT8, INT32, SUM = 0, 2, 0
COLLECTIVE_WINDOW = 1
TO_DEVICE, TO_HOST = 1, 2
PERIOD = 251  # of the pattern of bytes: no power of two, so that a block in a wrong place shows


class Wrong(Exception):
    """What NCCL, CUDA or the data did wrong."""


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * 128)]


class WaitSignal(ctypes.Structure):
    """ncclWaitSignalDesc_t: how many signals of which rank."""
    _fields_ = [("count", ctypes.c_int), ("peer", ctypes.c_int), ("signal", ctypes.c_int), ("context", ctypes.c_int)]


class Library:
    """Calls of a C library; an error is an exception with the library's own words."""

    def __init__(self, path, words):
        self._library = ctypes.CDLL(path)
        self._words = getattr(self._library, words)
        self._words.restype = ctypes.c_char_p

    def has(self, name):
        return hasattr(self._library, name)

    def __getattr__(self, name):
        function = getattr(self._library, name)

        def call(*arguments):
            result = function(*arguments)
            if result != 0:
                raise Wrong(f"{name}: {self._words(result).decode()} ({result})")
        return call


def pointer(address, offset=0):
    return ctypes.c_void_p(address.value + offset)


def pattern(sender, receiver, size):
    """The bytes that `sender` has for `receiver`."""
    one = bytes((sender * 17 + receiver * 31 + i) % PERIOD for i in range(PERIOD))
    return (one * (size // PERIOD + 1))[:size]


class Rank:
    def __init__(self, options):
        self.options = options
        self.nccl = Library(options.nccl, "ncclGetErrorString")
        self.cuda = Library(options.cuda, "cudaGetErrorString")
        self.cuda.cudaSetDevice(options.gpu)
        self.stream = ctypes.c_void_p()
        self.cuda.cudaStreamCreate(ctypes.byref(self.stream))
        self.comm = ctypes.c_void_p()
        identity = self._identity()
        self.nccl.ncclCommInitRank(ctypes.byref(self.comm), options.ranks, identity, options.rank)

    def _identity(self):
        """Rank 0 writes NCCL's unique id into a file; the others wait for it."""
        file, identity = pathlib.Path(self.options.id), UniqueId()
        if self.options.rank == 0:
            self.nccl.ncclGetUniqueId(ctypes.byref(identity))
            part = file.with_suffix(".part")
            part.write_bytes(bytes(identity))
            part.rename(file)
            return identity
        deadline = time.monotonic() + 60
        while not file.exists():
            if time.monotonic() > deadline:
                raise Wrong("rank 0 has made no unique id within 60 s")
            time.sleep(0.05)
        return UniqueId.from_buffer_copy(file.read_bytes())

    def versions(self):
        version, device = ctypes.c_int(), ctypes.c_int()
        self.nccl.ncclGetVersion(ctypes.byref(version))
        self.cuda.cudaRuntimeGetVersion(ctypes.byref(device))
        return {"nccl": version.value, "cuda_runtime": device.value}

    def memory(self, size):
        """Of the GPU, by NCCL where it can (windows need that)."""
        address = ctypes.c_void_p()
        if self.nccl.has("ncclMemAlloc"):
            self.nccl.ncclMemAlloc(ctypes.byref(address), ctypes.c_size_t(size))
        else:
            self.cuda.cudaMalloc(ctypes.byref(address), ctypes.c_size_t(size))
        return address

    def write(self, address, data):
        self.cuda.cudaMemcpy(address, data, ctypes.c_size_t(len(data)), TO_DEVICE)

    def read(self, address, size):
        data = ctypes.create_string_buffer(size)
        self.cuda.cudaMemcpy(data, address, ctypes.c_size_t(size), TO_HOST)
        return data.raw

    def wait(self):
        self.cuda.cudaStreamSynchronize(self.stream)

    def expect(self, what, got, wanted):
        if got == wanted:
            return
        at = next(i for i in range(len(wanted)) if got[i] != wanted[i])
        raise Wrong(f"{what} of {len(wanted)} bytes: byte {at} is {got[at]}, not {wanted[at]}")

    def all_reduce(self, size):
        """Numbers of 32 bits, whose sums are checked."""
        ranks, count = self.options.ranks, size // 4
        block = [(i % PERIOD) * 1000 + 1 for i in range(PERIOD)]

        def numbers(factor):
            one = b"".join((each * factor).to_bytes(4, sys.byteorder) for each in block)
            return (one * (count // PERIOD + 1))[:count * 4]
        send, receive = self.memory(size), self.memory(size)
        self.write(send, numbers(self.options.rank + 1))
        self._all_reduce(send, receive, count)
        self.wait()
        self.expect("all_reduce", self.read(receive, count * 4), numbers(ranks * (ranks + 1) // 2))
        return send, receive

    def _all_reduce(self, send, receive, count):
        self.nccl.ncclAllReduce(send, receive, ctypes.c_size_t(count), INT32, SUM, self.comm, self.stream)

    def all_to_all(self, size):
        ranks, own = self.options.ranks, self.options.rank
        send, receive = self.memory(size * ranks), self.memory(size * ranks)
        self.write(send, b"".join(pattern(own, peer, size) for peer in range(ranks)))
        self.nccl.ncclGroupStart()
        for peer in range(ranks):
            self.nccl.ncclSend(pointer(send, peer * size), ctypes.c_size_t(size), INT8, peer, self.comm, self.stream)
            self.nccl.ncclRecv(pointer(receive, peer * size), ctypes.c_size_t(size), INT8, peer, self.comm, self.stream)
        self.nccl.ncclGroupEnd()
        self.wait()
        self.expect("all-to-all", self.read(receive, size * ranks), b"".join(pattern(peer, own, size) for peer in range(ranks)))

    def bandwidth(self, size):
        """GB/s of an all_reduce as nccl-tests count it (busbw)."""
        send, receive = self.all_reduce(size)
        rounds = 20 if size <= 1 << 20 else 5
        begin = time.monotonic()
        for _ in range(rounds):
            self._all_reduce(send, receive, size // 4)
        self.wait()
        each = (time.monotonic() - begin) / rounds
        return size / each / 1e9 * 2 * (self.options.ranks - 1) / self.options.ranks

    def window(self, size):
        memory, window = self.memory(size), ctypes.c_void_p()
        self.write(memory, bytes(size))
        self.nccl.ncclCommWindowRegister(self.comm, memory, ctypes.c_size_t(size), ctypes.byref(window), COLLECTIVE_WINDOW)
        return memory, window

    def one_sided(self):
        """Each rank puts to the next and signals; after the signal all bytes are there. False: this NCCL has no host RMA."""
        if not self.nccl.has("ncclPutSignal"):
            return False
        size, ranks, own = 1 << 20, self.options.ranks, self.options.rank
        following, before = (own + 1) % ranks, (own - 1) % ranks
        source, _ = self.window(size)
        target, target_window = self.window(size)
        for turn in range(3):
            self.write(source, pattern(own, following + turn, size))
            self.nccl.ncclPutSignal(source, ctypes.c_size_t(size), INT8, following, target_window, ctypes.c_size_t(0), 0, 0, 0, self.comm,
                                    self.stream)
            waits = WaitSignal(1, before, 0, 0)
            self.nccl.ncclWaitSignal(1, ctypes.byref(waits), self.comm, self.stream)
            self.wait()
            self.expect("a put", self.read(target, size), pattern(before, own + turn, size))
            self.all_to_all(64)  # nobody writes into a window that is still looked at
        return True

    def run(self):
        outcome = {**self.versions(), "verified": [], "busbw": {}}
        sizes = [1 << shift for shift in range(10, 40, 5) if 1 << shift <= self.options.max]
        for size in sizes:
            self.all_reduce(size)
            self.all_to_all(size)
            outcome["verified"].append(size)
        for size in sizes[1:]:
            outcome["busbw"][size] = round(self.bandwidth(size), 3)
        if self.options.one_sided:
            outcome["one_sided"] = self.one_sided()
        self.nccl.ncclCommDestroy(self.comm)
        return outcome


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--nccl", "--cuda", "--id"):
        parser.add_argument(name, required=True)
    for name in ("--rank", "--ranks"):
        parser.add_argument(name, type=int, required=True)
    parser.add_argument("--gpu", type=int, default=0)
    parser.add_argument("--max", type=int, default=32 << 20)
    parser.add_argument("--one-sided", action="store_true")
    options = parser.parse_args()
    try:
        outcome = Rank(options).run()
    except (Wrong, OSError) as problem:
        outcome = {"wrong": str(problem)}
    print(json.dumps(outcome), flush=True)
    os._exit(1 if "wrong" in outcome else 0)  # what NCCL's threads still do does not matter


if __name__ == "__main__":
    main()
