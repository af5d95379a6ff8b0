#include "perf/collective/measure.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <numeric>
#include <set>
#include <thread>

#include "cli/options/message.h"
#include "perf/measuring/measuring.h"

namespace railwise::cli {
namespace {

constexpr std::size_t kRingSlot = std::size_t{512} << 10;      // NCCL's buffers of 4 MiB have eight steps
constexpr std::size_t kExchangeSlot = std::size_t{128} << 10;  // NCCL_P2P_NET_CHUNKSIZE
constexpr std::size_t kMinSlot = 4096;
// Largest staging memory of one rank over all its links, because real devices pin it.
constexpr std::size_t kMaxStaging = std::size_t{256} << 20;
// Number of transfers that a rank works on at the same time, for each channel. A pair of ranks has two.
constexpr std::size_t kTransfersInFlight = 16;
// Bytes after the receive buffer that must stay unchanged.
constexpr std::size_t kGuard = 256;
constexpr std::byte kGuardByte{0x5a};
// A second channel of a ring is faster only from about so many bytes per block on.
constexpr std::size_t kRingShare = 512;
// Elements are generated and compared in blocks of this many bytes.
constexpr std::size_t kPiece = std::size_t{256} << 10;

// A signal that is added once too often comes with the next completion, or with the next look for a lost
// path. Those are 20 ms apart (net/patience.h), so this time has a few of them.
constexpr auto kLate = std::chrono::milliseconds(100);

constexpr auto kProgressPeriod = std::chrono::milliseconds(200);

double secondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Equal in all ranks: the two ends of a connection cut data into the same chunks.
std::size_t slotBytes(const PerfOptions& options, int ranks) {
  const auto links = static_cast<std::size_t>(2 * mostPeers(options.collective, ranks) * options.channels);
  std::size_t slot = traitsOf(options.collective).ring ? kRingSlot : kExchangeSlot;
  while (slot > kMinSlot && (slot / 2 >= options.max_bytes || links * kSlots * slot > kMaxStaging)) slot /= 2;
  return slot;
}

}  // namespace

LinkPlan linkPlan(const PerfOptions& options, int rank, int ranks) {
  std::set<int> send_to, receive_from;
  for (const Variant& variant : variantsOf(options, ranks)) {
    for (const Stage& stage : planOf(options.collective, rank, ranks, variant.root)) {
      for (const Transfer& transfer : stage) {
        if (transfer.to >= 0) send_to.insert(transfer.to);
        if (transfer.from >= 0) receive_from.insert(transfer.from);
      }
    }
  }
  LinkPlan plan;
  plan.channels = options.channels;
  plan.send_to.assign(send_to.begin(), send_to.end());
  plan.receive_from.assign(receive_from.begin(), receive_from.end());
  plan.slot_bytes = slotBytes(options, ranks);
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
                                                  Traffic& traffic, Worker& progress, Activity& activity,
                                                  RankRecord& record, bool cores_are_few) {
  const std::size_t bytes = options.max_bytes + kGuard;
  auto send = Buffer::create(bytes);
  auto receive = Buffer::create(bytes);
  if (!send.ok() || !receive.ok())
    return Error{textOf("no memory for two buffers of %zu bytes (-e/--maxbytes)", bytes)};
  return std::unique_ptr<Measure>(new Measure(options, bootstrap, traffic, progress, activity, record,
                                              cores_are_few, std::move(*send), std::move(*receive)));
}

Measure::Measure(const PerfOptions& options, Bootstrap& bootstrap, Traffic& traffic, Worker& progress,
                 Activity& activity, RankRecord& record, bool cores_are_few, Buffer send, Buffer receive)
    : options_(options),
      traits_(traitsOf(options.collective)),
      bootstrap_(bootstrap),
      traffic_(traffic),
      progress_(progress),
      activity_(activity),
      record_(record),
      wait_(cores_are_few),
      send_(std::move(send)),
      receive_(std::move(receive)),
      rank_(bootstrap.rank()),
      ranks_(bootstrap.size()),
      window_(kTransfersInFlight * static_cast<std::size_t>(options.channels)),
      per_iteration_(options.aggregated * traits_.ways) {}

std::string Measure::shapeText(const Shape& shape) const {
  return textOf("%s of %zu bytes %s", collectiveName(options_.collective), shape.bytes,
                shape.in_place ? "in place" : "out of place");
}

Result<Row> Measure::row(uint64_t bytes, const Variant& variant, const std::string& begin) {
  progress_text_ = begin;
  Shape shape;
  shape.variant = variant;
  const std::size_t element = elementBytes(variant.type);
  shape.count = blockElements(options_.collective, ranks_, bytes, element);
  shape.bytes = shape.count * element * static_cast<std::size_t>(blocksOf(options_.collective, ranks_));
  Row row;
  row.bytes = shape.bytes;
  row.count = shape.count;
  row.variant = variant;
  for (const bool in_place : placesOf(options_.collective)) {
    shape.in_place = in_place;
    auto measured = measure(shape);
    if (!measured.ok()) return measured.status();
    row.at(in_place) = std::move(*measured);
  }
  return row;
}

Result<Measurement> Measure::measure(const Shape& shape) {
  fill(contentsOf(shape, next_salt_++), shape.in_place);
  const Stages stages = makeStages(shape);
  activity_.setPhase("waiting for the other ranks before " + shapeText(shape));
  RAILWISE_TRY(bootstrap_.barrier());
  activity_.setPhase("in " + shapeText(shape));
  Times times;
  RAILWISE_TRY(warmUp(stages, times));
  RAILWISE_TRY(bootstrap_.barrier());
  RAILWISE_TRY(options_.barriers == Barriers::kNone ? timeAll(stages, times)
                                                    : timeWithBarriers(stages, times));
  Faults faults;
  for (int i = 0; i < options_.check; ++i) RAILWISE_TRY(runChecked(shape, stages, faults.data));
  activity_.setPhase("waiting for the other ranks after " + shapeText(shape));
  if (options_.check > 0) RAILWISE_TRY(checkSignals(faults.signals));
  wrong_before_ += faults.data.count + faults.signals.count;
  record_.wrong.store(wrong_before_, std::memory_order_relaxed);
  return agree(shapeText(shape), elementBytes(shape.variant.type), times, faults);
}

Status Measure::warmUp(const Stages& stages, Times& times) {
  if (options_.warmup_iters == 0) return Status::success();
  const auto begin = Clock::now();
  RAILWISE_TRY(run(stages, options_.warmup_iters));
  times.warmup = secondsSince(begin) / options_.warmup_iters / per_iteration_;
  return Status::success();
}

Status Measure::timeAll(const Stages& stages, Times& times) {
  const auto begin = Clock::now();
  RAILWISE_TRY(run(stages, options_.iters, &times.samples));
  times.seconds = secondsSince(begin) / options_.iters / per_iteration_;
  return Status::success();
}

Status Measure::timeWithBarriers(const Stages& stages, Times& times) {
  Samples samples(options_.iters);
  double sum = 0;
  for (int i = 0; i < options_.iters; ++i) {
    const auto begin = Clock::now();
    RAILWISE_TRY(run(stages, 1));
    const double alone = secondsSince(begin);
    RAILWISE_TRY(bootstrap_.barrier());
    const double seconds = options_.barriers == Barriers::kTimed ? secondsSince(begin) : alone;
    sum += seconds;
    samples.add(seconds / per_iteration_);
    showIteration(i, options_.iters);
  }
  times.samples = samples.take();
  times.seconds = sum / options_.iters / per_iteration_;
  return Status::success();
}

// Runs one iteration over new contents, and verifies every element.
Status Measure::runChecked(const Shape& shape, const Stages& stages, Wrong& wrong) {
  const Contents contents = contentsOf(shape, next_salt_++);
  activity_.setPhase("waiting for the other ranks before the check of " + shapeText(shape));
  // Other ranks may still write into these buffers, or read them.
  if (isOneSided(options_.collective)) RAILWISE_TRY(bootstrap_.barrier());
  fill(contents, shape.in_place);
  RAILWISE_TRY(bootstrap_.barrier());
  activity_.setPhase("in the check of " + shapeText(shape));
  if (!stages.empty()) RAILWISE_TRY(progress_.run([&] { return runOnce(stages); }));
  // Nothing else tells this rank that its data are there.
  if (traits_.manner == Manner::kPuts) RAILWISE_TRY(bootstrap_.barrier());
  verify(shape, contents, wrong);
  record_.wrong.store(wrong.count + wrong_before_, std::memory_order_relaxed);
  return Status::success();
}

// All ranks have the signals of the runs so far, and none begins another run before agree().
Status Measure::checkSignals(Wrong& wrong) {
  if (!isOneSided(options_.collective)) return Status::success();
  RAILWISE_TRY(bootstrap_.barrier());
  traffic_.checkSignals(wrong);
  return Status::success();
}

Result<uint64_t> Measure::lateSignals() {
  if (!isOneSided(options_.collective) || options_.check == 0) return uint64_t{0};
  activity_.setPhase("waiting for signals that should not come");
  RAILWISE_TRY(bootstrap_.barrier());
  std::this_thread::sleep_for(kLate);
  Faults faults;
  RAILWISE_TRY(checkSignals(faults.signals));
  record_.wrong.fetch_add(faults.signals.count, std::memory_order_relaxed);
  auto measured = agree(std::string(collectiveName(options_.collective)) + ", after all runs", 1, {}, faults);
  if (!measured.ok()) return measured.status();
  return measured->wrong;
}

Status Measure::runOnce(const Stages& stages) {
  const auto progress = [this] { return traffic_.progress(); };
  for (const Tasks& tasks : stages) RAILWISE_TRY(runTasks(tasks, window_, activity_, wait_, progress));
  return Status::success();
}

Status Measure::run(const Stages& stages, int times, std::vector<double>* samples) {
  const int stride = strideOf(times);
  Samples means(times);
  const Status status = progress_.run([&] {
    auto begin = Clock::now();
    for (int i = 0; i < times; ++i) {
      for (int k = 0; k < options_.aggregated; ++k) RAILWISE_TRY(runOnce(stages));
      if ((i + 1) % stride != 0) continue;
      const auto now = Clock::now();
      const std::chrono::duration<double> taken = now - begin;
      means.add(taken.count() / per_iteration_, stride);
      begin = now;
      showIteration(i, times);
    }
    return Status::success();
  });
  if (samples != nullptr) *samples = means.take();
  return status;
}

void Measure::showIteration(int iteration, int of) {
  if (rank_ != 0 || Clock::now() < next_progress_) return;
  next_progress_ = Clock::now() + kProgressPeriod;
  showProgress(progress_text_ + textOf(", iteration %d of %d", iteration + 1, of));
}

Measure::Stages Measure::makeStages(const Shape& shape) {
  Stages stages;
  for (const Stage& stage : planOf(options_.collective, rank_, ranks_, shape.variant.root)) {
    Tasks tasks;
    for (const Transfer& transfer : stage) addTransfer(shape, transfer, tasks);
    if (!tasks.empty()) stages.push_back(std::move(tasks));
  }
  return stages;
}

// Adds a task for each channel that gets a part of the transfer.
void Measure::addTransfer(const Shape& shape, const Transfer& transfer, Tasks& tasks) {
  const Contents contents = contentsOf(shape, 0);
  const std::size_t element = elementBytes(shape.variant.type);
  TaskPlan plan;
  plan.transfer = transfer;
  plan.input = {inputOf(contents, shape.in_place).data(), contents.firstInput()};
  plan.output = {outputOf(contents, shape.in_place).data(), contents.firstOutput()};
  plan.block = shape.count;
  plan.type = shape.variant.type;
  plan.op = shape.variant.op;
  plan.ranks = ranks_;
  plan.empty_message = traits_.empty_message;
  const std::size_t least = traits_.ring ? kRingShare : kMinSlot;
  const std::size_t granule = least / element * static_cast<std::size_t>(transfer.cut);
  const bool local = transfer.to < 0 && transfer.from < 0;
  const int channels = local ? 1 : options_.channels;
  const auto parts = splitParts(shape.count * static_cast<std::size_t>(transfer.width), channels, granule);
  for (int channel = 0; channel < channels; ++channel) {
    plan.part = parts[static_cast<std::size_t>(channel)];
    // A task without data does nothing; only the first sends an empty message.
    if (plan.part.count == 0) plan.empty_message = plan.empty_message && channel == 0;
    auto task = traffic_.makeTask(plan, channel, transfer.after_previous && shape.in_place);
    if (task != nullptr) tasks.push_back(std::move(task));
  }
}

Contents Measure::contentsOf(const Shape& shape, uint64_t salt) const {
  return {options_.collective, shape.variant, rank_, ranks_, shape.count, shape.in_place, salt};
}

std::span<std::byte> Measure::inputOf(const Contents& contents, bool in_place) const {
  return (in_place ? receive_ : send_).after(contents.inputAt()).first(contents.inputBytes());
}

std::span<std::byte> Measure::outputOf(const Contents& contents, bool in_place) const {
  return receive_.after(in_place ? contents.outputAt() : 0).first(contents.outputBytes());
}

// The memory after the last byte that the collective may write.
std::span<std::byte> Measure::guardOf(const Contents& contents, bool in_place) const {
  return receive_.after(in_place ? contents.bytes() : contents.outputBytes()).first(kGuard);
}

void Measure::fill(const Contents& contents, bool in_place) {
  contents.fillOutput(outputOf(contents, in_place));
  contents.fillInput(inputOf(contents, in_place));
  const auto guard = guardOf(contents, in_place);
  std::fill(guard.begin(), guard.end(), kGuardByte);
  activity_.tick();
}

// Adds the wrong elements of this run to `wrong`.
void Measure::verify(const Shape& shape, const Contents& contents, Wrong& wrong) {
  const DataType type = shape.variant.type;
  const std::size_t element = elementBytes(type);
  const auto got = outputOf(contents, shape.in_place);
  std::vector<std::byte> expected(std::min(kPiece, got.size()));
  for (std::size_t at = 0; at < got.size(); at += kPiece) {
    const auto piece = std::span(expected).first(std::min(kPiece, got.size() - at));
    contents.fillExpected(at / element, piece);
    compare(type, piece, got.subspan(at, piece.size()), at / element, wrong);
    activity_.tick();
  }
  const std::vector<std::byte> guard(kGuard, kGuardByte);
  Wrong written;
  compare(DataType::kInt8, guard, guardOf(contents, shape.in_place), 0, written);
  if (written.count == 0) return;
  if (wrong.count == 0) wrong = {0, got.size() / element, "nothing written behind the buffer", written.got};
  wrong.count += written.count;
}

// One number for all ranks, as -a/--average asks.
double Measure::combined(std::span<const double> of_ranks) const {
  switch (options_.average) {
    case AverageOver::kRankZero:
      return of_ranks.front();
    case AverageOver::kMean:
      return std::accumulate(of_ranks.begin(), of_ranks.end(), 0.0) / static_cast<double>(of_ranks.size());
    case AverageOver::kLeast:
      return *std::min_element(of_ranks.begin(), of_ranks.end());
    case AverageOver::kLargest:
      break;
  }
  return *std::max_element(of_ranks.begin(), of_ranks.end());
}

void Measure::report(const std::string& where, int rank, const Faults& faults, std::size_t element) const {
  const auto number = [](uint64_t value) { return static_cast<unsigned long long>(value); };
  const auto& [data, signals] = faults;
  if (data.count > 0)
    say("wrong data: %s, rank %d: element %llu (offset %llu) is %s, expected %s (%llu wrong in this rank)",
        where.c_str(), rank, number(data.index), number(data.index * element), data.got.c_str(),
        data.expected.c_str(), number(data.count));
  if (signals.count > 0)
    say("wrong signal: %s, rank %d: the signal at offset %llu is %s, expected %s (%llu wrong in this rank)",
        where.c_str(), rank, number(signals.index), signals.got.c_str(), signals.expected.c_str(),
        number(signals.count));
}

// Combines the results of all ranks: their times, and the sum of what is wrong. `where` is for messages.
Result<Measurement> Measure::agree(const std::string& where, std::size_t element, const Times& times,
                                   const Faults& faults) {
  ByteWriter mine;
  mine.u64(std::bit_cast<uint64_t>(times.seconds)).u64(std::bit_cast<uint64_t>(times.warmup));
  for (const Wrong* its : {&faults.data, &faults.signals})
    mine.u64(its->count).u64(its->index).text(its->expected).text(its->got);
  auto all = bootstrap_.allGather(mine.take());
  if (!all.ok()) return all.status();
  Measurement measured;
  std::vector<double> seconds, warmups;
  for (int rank = 0; rank < ranks_; ++rank) {
    ByteReader reader((*all)[static_cast<std::size_t>(rank)]);
    seconds.push_back(std::bit_cast<double>(reader.u64()));
    warmups.push_back(std::bit_cast<double>(reader.u64()));
    Faults found;
    for (Wrong* its : {&found.data, &found.signals}) {
      its->count = reader.u64();
      its->index = reader.u64();
      its->expected = reader.text();
      its->got = reader.text();
    }
    if (measured.wrong == 0 && rank_ == 0) report(where, rank, found, element);
    measured.wrong += found.data.count + found.signals.count;
  }
  measured.seconds = combined(seconds);
  measured.warmup_seconds = combined(warmups);
  RAILWISE_TRY(collectSamples(times.samples, measured));
  return measured;
}

// Rank 0 gets the times of the iterations of all ranks.
Status Measure::collectSamples(const std::vector<double>& mine, Measurement& measured) {
  ByteWriter writer;
  for (const double sample : mine) writer.u64(std::bit_cast<uint64_t>(sample));
  auto all = bootstrap_.gather(writer.take());
  if (!all.ok() || rank_ != 0) return all.status();
  std::vector<ByteReader> readers;
  for (const Bytes& block : *all) readers.emplace_back(block);
  std::vector<double> of_ranks(readers.size());
  const auto stride = static_cast<std::size_t>(strideOf(options_.iters));
  for (std::size_t i = 0; i < mine.size(); ++i) {
    for (std::size_t rank = 0; rank < readers.size(); ++rank)
      of_ranks[rank] = std::bit_cast<double>(readers[rank].u64());
    if (i * stride >= static_cast<std::size_t>(options_.skipped_samples))
      measured.samples.push_back(combined(of_ranks));
  }
  return Status::success();
}

}  // namespace railwise::cli
