#include "collective.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

namespace {

using Expected = std::function<double(std::size_t)>;

// Bytes behind a result that no collective may touch.
constexpr std::size_t kGuardBytes = 64;
constexpr unsigned char kGuard = 0xa5;

// A buffer of `count` elements and a guard behind it.
class Buffer {
 public:
  Buffer(const Element& element, std::size_t count)
      : element_(element), count_(count), memory_(count * element.bytes + kGuardBytes) {
    // Nothing that was there before can pass for a result.
    MUST(cudaMemset(memory_.at(), kGuard, count * element.bytes + kGuardBytes));
    MUST(cudaStreamSynchronize(nullptr));
  }

  char* at(std::size_t element = 0) const { return memory_.at(element * element_.bytes); }

  void fill(std::size_t from, std::size_t count, const Expected& value) const {
    std::vector<char> host(count * element_.bytes);
    for (std::size_t i = 0; i < count; ++i) element_.encode(value(i), host.data() + i * element_.bytes);
    MUST(cudaMemcpy(at(from), host.data(), host.size(), cudaMemcpyHostToDevice));
    MUST(cudaStreamSynchronize(nullptr));  // it may return before the last bytes are there
  }

  // How many elements are not as expected; the guard counts as one.
  std::size_t wrong(ncclRedOp_t operation, std::size_t from, std::size_t count,
                    const Expected& expected) const {
    std::vector<char> host(count_ * element_.bytes + kGuardBytes);
    MUST(cudaMemcpy(host.data(), memory_.at(), host.size(), cudaMemcpyDeviceToHost));
    std::size_t bad = 0;
    for (std::size_t i = 0; i < count; ++i) {
      bad += isRight(element_, operation, expected(i),
                     element_.decode(host.data() + (from + i) * element_.bytes))
                 ? 0
                 : 1;
    }
    const auto* guard = reinterpret_cast<const unsigned char*>(host.data() + count_ * element_.bytes);
    return bad + (std::all_of(guard, guard + kGuardBytes, [](unsigned char byte) { return byte == kGuard; })
                      ? 0
                      : 1);
  }

 private:
  const Element& element_;
  std::size_t count_;
  DeviceMemory memory_;
};

std::size_t size(int ranks) { return static_cast<std::size_t>(ranks); }

// What `rank` puts in.
Expected inputs(const Call& call, int rank, std::size_t from = 0) {
  return [call, rank, from](std::size_t i) {
    return inputOf(*call.element, call.operation, rank, from + i, call.salt);
  };
}

// What comes out of a reduction.
Expected reduced(const Call& call, int ranks, std::size_t from = 0) {
  return [call, ranks, from](std::size_t i) {
    return reducedOf(*call.element, call.operation, ranks, from + i, call.salt);
  };
}

std::size_t allGather(const Communicator& on, const Call& call) {
  const Buffer all(*call.element, size(on.ranks) * call.count);
  const Buffer own(*call.element, call.in_place ? 0 : call.count);
  const std::size_t share = size(on.rank) * call.count;
  const Buffer& from = call.in_place ? all : own;
  const std::size_t at = call.in_place ? share : 0;
  from.fill(at, call.count, inputs(call, on.rank));
  MUST(ncclAllGather(from.at(at), all.at(), call.count, call.element->type, on.comm, on.stream));
  on.wait();
  return all.wrong(ncclSum, 0, size(on.ranks) * call.count, [&](std::size_t i) {
    return inputOf(*call.element, call.operation, static_cast<int>(i / call.count), i % call.count,
                   call.salt);
  });
}

std::size_t reduceScatter(const Communicator& on, const Call& call) {
  const Buffer all(*call.element, size(on.ranks) * call.count);
  const Buffer own(*call.element, call.in_place ? 0 : call.count);
  const std::size_t share = size(on.rank) * call.count;
  all.fill(0, size(on.ranks) * call.count, inputs(call, on.rank));
  const Buffer& to = call.in_place ? all : own;
  const std::size_t at = call.in_place ? share : 0;
  MUST(ncclReduceScatter(all.at(), to.at(at), call.count, call.element->type, call.operation, on.comm,
                         on.stream));
  on.wait();
  return to.wrong(call.operation, at, call.count, reduced(call, on.ranks, share));
}

std::size_t broadcast(const Communicator& on, const Call& call) {
  const Buffer from(*call.element, call.in_place ? 0 : call.count);
  const Buffer to(*call.element, call.count);
  if (on.rank == call.root) (call.in_place ? to : from).fill(0, call.count, inputs(call, call.root));
  MUST(ncclBroadcast((call.in_place ? to : from).at(), to.at(), call.count, call.element->type, call.root,
                     on.comm, on.stream));
  on.wait();
  return to.wrong(ncclSum, 0, call.count, inputs(call, call.root));
}

std::size_t reduce(const Communicator& on, const Call& call) {
  const Buffer from(*call.element, call.count);
  const Buffer to(*call.element, call.in_place ? 0 : call.count);
  const Buffer& result = call.in_place ? from : to;
  from.fill(0, call.count, inputs(call, on.rank));
  MUST(ncclReduce(from.at(), result.at(), call.count, call.element->type, call.operation, call.root, on.comm,
                  on.stream));
  on.wait();
  if (on.rank != call.root) return 0;
  return result.wrong(call.operation, 0, call.count, reduced(call, on.ranks));
}

// Each rank sends to the next and receives from the one before.
std::size_t sendReceive(const Communicator& on, const Call& call) {
  const Buffer from(*call.element, call.count);
  const Buffer to(*call.element, call.count);
  const int next = (on.rank + 1) % on.ranks;
  const int previous = (on.rank + on.ranks - 1) % on.ranks;
  from.fill(0, call.count, inputs(call, on.rank));
  MUST(ncclGroupStart());
  MUST(ncclSend(from.at(), call.count, call.element->type, next, on.comm, on.stream));
  MUST(ncclRecv(to.at(), call.count, call.element->type, previous, on.comm, on.stream));
  MUST(ncclGroupEnd());
  on.wait();
  return to.wrong(ncclSum, 0, call.count, inputs(call, previous));
}

// Several collectives in one group.
std::size_t group(const Communicator& on, const Call& call) {
  constexpr uint32_t kCalls = 3;
  std::vector<Call> calls(kCalls, call);
  std::vector<std::unique_ptr<Buffer>> buffers;
  for (uint32_t i = 0; i < kCalls; ++i) {
    calls[i].salt = call.salt * kCalls + i;
    buffers.push_back(std::make_unique<Buffer>(*call.element, call.count));
    buffers.back()->fill(0, call.count, inputs(calls[i], on.rank));
  }
  MUST(ncclGroupStart());
  for (const auto& buffer : buffers) {
    MUST(ncclAllReduce(buffer->at(), buffer->at(), call.count, call.element->type, call.operation, on.comm,
                       on.stream));
  }
  MUST(ncclGroupEnd());
  on.wait();
  std::size_t bad = 0;
  for (uint32_t i = 0; i < kCalls; ++i) {
    bad += buffers[i]->wrong(call.operation, 0, call.count, reduced(calls[i], on.ranks));
  }
  return bad;
}

}  // namespace

std::size_t allReduce(const Communicator& on, const Call& call) {
  const Buffer from(*call.element, call.count);
  const Buffer to(*call.element, call.in_place ? 0 : call.count);
  const Buffer& result = call.in_place ? from : to;
  from.fill(0, call.count, inputs(call, on.rank));
  MUST(ncclAllReduce(from.at(), result.at(), call.count, call.element->type, call.operation, on.comm,
                     on.stream));
  on.wait();
  return result.wrong(call.operation, 0, call.count, reduced(call, on.ranks));
}

std::size_t allToAll(const Communicator& on, const Call& call) {
  const Buffer from(*call.element, size(on.ranks) * call.count);
  const Buffer to(*call.element, size(on.ranks) * call.count);
  from.fill(0, size(on.ranks) * call.count, inputs(call, on.rank));
  MUST(ncclGroupStart());
  for (int peer = 0; peer < on.ranks; ++peer) {
    MUST(
        ncclSend(from.at(size(peer) * call.count), call.count, call.element->type, peer, on.comm, on.stream));
    MUST(ncclRecv(to.at(size(peer) * call.count), call.count, call.element->type, peer, on.comm, on.stream));
  }
  MUST(ncclGroupEnd());
  on.wait();
  const std::size_t share = size(on.rank) * call.count;
  return to.wrong(ncclSum, 0, size(on.ranks) * call.count, [&](std::size_t i) {
    return inputOf(*call.element, call.operation, static_cast<int>(i / call.count), share + i % call.count,
                   call.salt);
  });
}

const NamedCollective kCollectives[] = {
    {.name = "all_reduce", .run = allReduce, .reduces = true, .shares = false, .in_place = true},
    {.name = "all_gather", .run = allGather, .reduces = false, .shares = true, .in_place = true},
    {.name = "reduce_scatter", .run = reduceScatter, .reduces = true, .shares = true, .in_place = true},
    {.name = "broadcast", .run = broadcast, .reduces = false, .shares = false, .in_place = true},
    {.name = "reduce", .run = reduce, .reduces = true, .shares = false, .in_place = true},
    {.name = "all_to_all", .run = allToAll, .reduces = false, .shares = true, .in_place = false},
    {.name = "send_receive", .run = sendReceive, .reduces = false, .shares = false, .in_place = false},
    {.name = "group", .run = group, .reduces = true, .shares = false, .in_place = false},
};
const std::size_t kCollectiveCount = std::size(kCollectives);
