#include "perf/collective/measure.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "cli/options/message.h"

namespace railwise::cli {
namespace {

constexpr std::size_t kRingSlot = std::size_t{512} << 10;      // NCCL's buffers of 4 MiB have eight steps
constexpr std::size_t kExchangeSlot = std::size_t{128} << 10;  // NCCL_P2P_NET_CHUNKSIZE
constexpr std::size_t kMinSlot = 4096;
// Largest staging memory of one rank over all its links, because real devices pin it.
constexpr std::size_t kMaxStaging = std::size_t{256} << 20;
// Number of pairs of ranks that alltoall works on at the same time.
constexpr std::size_t kPairsInFlight = 8;
// Bytes after the receive buffer that must stay unchanged.
constexpr std::size_t kGuard = 256;
constexpr std::byte kGuardByte{0x5a};
// Elements are generated and compared in blocks of this many bytes.
constexpr std::size_t kPiece = std::size_t{256} << 10;

uint64_t blockCount(const PerfOptions& options, int ranks, uint64_t bytes) {
  const uint64_t elements = bytes / elementBytes(options.type);
  return options.collective == Collective::kAllToAll ? elements / static_cast<uint64_t>(ranks) : elements;
}

std::size_t bufferBytes(const PerfOptions& options, int ranks, uint64_t count) {
  const uint64_t blocks = options.collective == Collective::kAllToAll ? static_cast<uint64_t>(ranks) : 1;
  return count * blocks * elementBytes(options.type);
}

std::size_t slotBytes(const PerfOptions& options, std::size_t links) {
  const bool ring = options.collective == Collective::kAllReduce;
  std::size_t slot = ring ? kRingSlot : kExchangeSlot;
  while (slot > kMinSlot && (slot / 2 >= options.max_bytes || links * kSlots * slot > kMaxStaging)) slot /= 2;
  return slot;
}

}  // namespace

LinkPlan linkPlan(const PerfOptions& options, int rank, int ranks) {
  LinkPlan plan;
  plan.channels = options.channels;
  if (options.collective == Collective::kAllToAll) {
    for (int peer = 0; peer < ranks; ++peer) {
      if (peer != rank) plan.send_to.push_back(peer);
    }
    plan.receive_from = plan.send_to;
  } else if (ranks > 1) {
    plan.send_to = {(rank + 1) % ranks};
    plan.receive_from = {(rank + ranks - 1) % ranks};
  }
  plan.slot_bytes = slotBytes(options, 2 * plan.send_to.size() * static_cast<std::size_t>(options.channels));
  return plan;
}

Result<Buffer> Buffer::create(std::size_t bytes) {
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return Status{Code::kSystem, errno};
  return Buffer(static_cast<std::byte*>(data), bytes);
}

Buffer::~Buffer() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

Outcome<std::unique_ptr<Measure>> Measure::create(const PerfOptions& options, Bootstrap& bootstrap,
                                                  Links& links, Worker& progress, Activity& activity,
                                                  RankRecord& record, bool cores_are_few) {
  const std::size_t bytes = options.max_bytes + kGuard;
  auto send = Buffer::create(bytes);
  auto receive = Buffer::create(bytes);
  if (!send.ok() || !receive.ok())
    return Error{textOf("no memory for two buffers of %zu bytes (-e/--maxbytes)", bytes)};
  return std::unique_ptr<Measure>(new Measure(options, bootstrap, links, progress, activity, record,
                                              cores_are_few, std::move(*send), std::move(*receive)));
}

Measure::Measure(const PerfOptions& options, Bootstrap& bootstrap, Links& links, Worker& progress,
                 Activity& activity, RankRecord& record, bool cores_are_few, Buffer send, Buffer receive)
    : options_(options),
      bootstrap_(bootstrap),
      links_(links),
      progress_(progress),
      activity_(activity),
      record_(record),
      wait_(cores_are_few),
      send_(std::move(send)),
      receive_(std::move(receive)),
      rank_(bootstrap.rank()),
      ranks_(bootstrap.size()),
      element_(elementBytes(options.type)),
      window_(kPairsInFlight * static_cast<std::size_t>(options.channels)) {}

std::string Measure::shapeText(const Shape& shape) const {
  return textOf("%s of %zu bytes %s", collectiveName(options_.collective), shape.bytes,
                shape.in_place ? "in place" : "out of place");
}

Result<Row> Measure::row(uint64_t bytes) {
  Shape shape;
  shape.count = blockCount(options_, ranks_, bytes);
  shape.bytes = bufferBytes(options_, ranks_, shape.count);
  Row row;
  row.bytes = shape.bytes;
  row.count = shape.count;
  for (const bool in_place : {false, true}) {
    shape.in_place = in_place;
    auto measured = measure(shape);
    if (!measured.ok()) return measured.status();
    (in_place ? row.in_place : row.out_of_place) = *measured;
  }
  return row;
}

Result<Measurement> Measure::measure(const Shape& asked) {
  Shape shape = asked;
  shape.salt = next_salt_++;
  fill(shape);
  const Tasks tasks = makeTasks(shape);
  activity_.setPhase("waiting for the other ranks before " + shapeText(shape));
  RAILWISE_TRY(bootstrap_.barrier());
  activity_.setPhase("in " + shapeText(shape));
  RAILWISE_TRY(run(tasks, options_.warmup_iters));
  RAILWISE_TRY(bootstrap_.barrier());
  const auto begin = Clock::now();
  RAILWISE_TRY(run(tasks, options_.iters));
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count() / options_.iters;
  Wrong wrong;
  for (int i = 0; i < options_.check; ++i) RAILWISE_TRY(runChecked(shape, tasks, wrong));
  wrong_before_ += wrong.count;
  activity_.setPhase("waiting for the other ranks after " + shapeText(shape));
  return agree(shape, seconds, wrong);
}

// Runs one iteration over new contents, and verifies every element.
Status Measure::runChecked(Shape& shape, const Tasks& tasks, Wrong& wrong) {
  shape.salt = next_salt_++;
  fill(shape);
  activity_.setPhase("waiting for the other ranks before the check of " + shapeText(shape));
  RAILWISE_TRY(bootstrap_.barrier());
  activity_.setPhase("in the check of " + shapeText(shape));
  RAILWISE_TRY(run(tasks, 1));
  verify(shape, wrong);
  record_.wrong.store(wrong.count + wrong_before_, std::memory_order_relaxed);
  return Status::success();
}

Status Measure::run(const Tasks& tasks, int times) {
  if (times == 0 || tasks.empty()) return Status::success();
  return progress_.run([&] {
    for (int i = 0; i < times; ++i) RAILWISE_TRY(runTasks(tasks, window_, activity_, wait_));
    return Status::success();
  });
}

Measure::Tasks Measure::makeTasks(const Shape& shape) {
  Tasks tasks;
  switch (options_.collective) {
    case Collective::kAllReduce:
      addRing(shape, tasks);
      break;
    case Collective::kSendRecv:
      addExchange(shape, (rank_ + 1) % ranks_, (rank_ + ranks_ - 1) % ranks_, 0, 0, tasks);
      break;
    case Collective::kAllToAll:
      addAllToAll(shape, tasks);
      break;
  }
  return tasks;
}

void Measure::addRing(const Shape& shape, Tasks& tasks) {
  if (ranks_ == 1) {
    tasks.push_back(makeCopy(input(shape), receive_.data(), shape.bytes));
    return;
  }
  RingPlan plan{.rank = rank_, .size = ranks_, .type = options_.type, .op = options_.op};
  plan.input = input(shape);
  plan.output = receive_.data();
  // A second channel is faster only from about 512 bytes per rank on.
  const std::size_t granule = 512 / element_ * static_cast<std::size_t>(ranks_);
  const auto parts = splitParts(shape.count, options_.channels, granule);
  for (int channel = 0; channel < options_.channels; ++channel) {
    plan.part = parts[static_cast<std::size_t>(channel)];
    if (plan.part.count == 0) continue;
    tasks.push_back(makeRing(plan, links_.to((rank_ + 1) % ranks_, channel),
                             links_.from((rank_ + ranks_ - 1) % ranks_, channel)));
  }
}

// Adds a task that sends one block of shape.count elements at `send_at` to rank `to`, and receives one block
// at `receive_at` from rank `from`.
void Measure::addExchange(const Shape& shape, int to, int from, std::size_t send_at, std::size_t receive_at,
                          Tasks& tasks) {
  const std::byte* const send = input(shape) + send_at;
  std::byte* const receive = receive_.data() + receive_at;
  if (to == rank_) {
    tasks.push_back(makeCopy(send, receive, shape.count * element_));
    return;
  }
  const auto parts = splitParts(shape.count, options_.channels, kMinSlot / element_);
  for (int channel = 0; channel < options_.channels; ++channel) {
    const Part& part = parts[static_cast<std::size_t>(channel)];
    if (part.count == 0 && channel != 0) continue;
    const ExchangePlan plan{.send = send + part.first * element_,
                            .receive = receive + part.first * element_,
                            .bytes = part.count * element_,
                            .empty_message = true,
                            .in_place = shape.in_place};
    tasks.push_back(makeExchange(plan, links_.to(to, channel), links_.from(from, channel)));
  }
}

// Round k pairs rank r with rank (k - r) mod n, and that rank with r, so both ranks of a pair meet in the
// same round. So even with few pairs at a time, no two ranks wait for each other, also in place.
void Measure::addAllToAll(const Shape& shape, Tasks& tasks) {
  for (int round = 0; round < ranks_; ++round) {
    const int partner = (round - rank_ + ranks_) % ranks_;
    const std::size_t at = static_cast<std::size_t>(partner) * shape.count * element_;
    addExchange(shape, partner, partner, at, at, tasks);
  }
}

void Measure::fill(const Shape& shape) {
  const auto out = (shape.in_place ? receive_ : send_).first(shape.bytes);
  if (options_.collective == Collective::kAllReduce) {
    fillInput({options_.type, options_.op, ranks_, shape.salt}, rank_, 0, out);
  } else if (options_.collective == Collective::kSendRecv) {
    fillMessage(options_.type, shape.salt, rank_, (rank_ + 1) % ranks_, 0, out);
  } else {
    const std::size_t block = shape.count * element_;
    for (int to = 0; to < ranks_ && block > 0; ++to)
      fillMessage(options_.type, shape.salt, rank_, to, 0,
                  out.subspan(static_cast<std::size_t>(to) * block, block));
  }
  if (!shape.in_place) {
    const auto target = receive_.first(shape.bytes);
    fillExpected(shape, 0, target);
    poison(target);
  }
  const auto guard = receive_.after(shape.bytes).first(kGuard);
  std::fill(guard.begin(), guard.end(), kGuardByte);
  activity_.tick();
}

// Writes the expected elements of the receive buffer, from element `first` on.
void Measure::fillExpected(const Shape& shape, uint64_t first, std::span<std::byte> out) const {
  if (options_.collective == Collective::kAllReduce) {
    fillReduced({options_.type, options_.op, ranks_, shape.salt}, first, out);
  } else if (options_.collective == Collective::kSendRecv) {
    fillMessage(options_.type, shape.salt, (rank_ + ranks_ - 1) % ranks_, rank_, first, out);
  } else {
    for (std::size_t at = 0; at < out.size();) {
      const uint64_t index = first + at / element_;
      const uint64_t in_block = index % shape.count;
      const std::size_t bytes = std::min<std::size_t>(out.size() - at, (shape.count - in_block) * element_);
      fillMessage(options_.type, shape.salt, static_cast<int>(index / shape.count), rank_, in_block,
                  out.subspan(at, bytes));
      at += bytes;
    }
  }
}

// Adds the wrong elements of this run to `wrong`.
void Measure::verify(const Shape& shape, Wrong& wrong) {
  const auto got = receive_.first(shape.bytes);
  std::vector<std::byte> expected(std::min(kPiece, shape.bytes));
  for (std::size_t at = 0; at < shape.bytes; at += kPiece) {
    const auto piece = std::span(expected).first(std::min(kPiece, shape.bytes - at));
    fillExpected(shape, at / element_, piece);
    compare(options_.type, piece, got.subspan(at, piece.size()), at / element_, wrong);
    activity_.tick();
  }
  const std::vector<std::byte> guard(kGuard, kGuardByte);
  const auto behind = receive_.after(shape.bytes).first(kGuard);
  Wrong written;
  compare(DataType::kInt8, guard, behind, 0, written);
  if (written.count == 0) return;
  if (wrong.count == 0) wrong = {0, shape.bytes / element_, "nothing written behind the buffer", written.got};
  wrong.count += written.count;
}

// Combines the results of all ranks: the time of the slowest rank, and the sum of the wrong elements.
Result<Measurement> Measure::agree(const Shape& shape, double seconds, const Wrong& wrong) {
  const Bytes mine = ByteWriter()
                         .u64(std::bit_cast<uint64_t>(seconds))
                         .u64(wrong.count)
                         .u64(wrong.index)
                         .text(wrong.expected)
                         .text(wrong.got)
                         .take();
  auto all = bootstrap_.allGather(mine);
  if (!all.ok()) return all.status();
  Measurement measured;
  for (int rank = 0; rank < ranks_; ++rank) {
    ByteReader reader((*all)[static_cast<std::size_t>(rank)]);
    measured.seconds = std::max(measured.seconds, std::bit_cast<double>(reader.u64()));
    const uint64_t count = reader.u64();
    if (count > 0 && measured.wrong == 0 && rank_ == 0) {
      const uint64_t index = reader.u64();
      const std::string expected = reader.text();
      say("wrong data: %s, rank %d: element %llu is %s, expected %s (%llu wrong in this rank)",
          shapeText(shape).c_str(), rank, static_cast<unsigned long long>(index), reader.text().c_str(),
          expected.c_str(), static_cast<unsigned long long>(count));
    }
    measured.wrong += count;
  }
  return measured;
}

}  // namespace railwise::cli
