// The table of one-sided communication: two ranks of this process, each with a thread.
#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <thread>

#include "cli/plugin/rma_api.h"
#include "conform/subject.h"
#include "nccl/types.h"

namespace railwise::conform {
namespace {

constexpr int kRanks = 2;
constexpr std::size_t kBytes = 1 << 20;
constexpr auto kPatience = std::chrono::seconds(60);  // from the first error to that of the other rank

// A rank with a window of data and one of signals.
struct Rank {
  explicit Rank(const cli::RmaApi& table) : api(table.another()), member(*api) {}

  void* post(cli::RmaKind kind, cli::RmaPlace mine, std::size_t bytes, cli::RmaPlace theirs) {
    void* const request = member.post(kind, mine, bytes, theirs, other, {{signals, 0}, kAdded});
    need(request != nullptr);
    return request;
  }
  // `target`: progressed meanwhile, as NCCL does on every rank; null: it has a thread of its own.
  void finish(void* request, Rank* target = nullptr) {
    until(
        "the completion",
        [&] {
          if (target != nullptr) target->progress();
          progress();
          const bool done = member.test(request);
          need(!member.failed());
          return done;
        },
        kPatience);
  }
  void progress() { need(member.progress()); }
  uint64_t value() { return std::atomic_ref(values[0]).load(std::memory_order_acquire); }
  void need(bool held) const {
    if (!held) throw Refused(member.error());
  }

  static constexpr uint64_t kAdded = 3;
  std::unique_ptr<cli::RmaApi> api;
  cli::RmaMember member;
  uint32_t other = 0;
  alignas(8) std::array<char, NCCL_NET_HANDLE_MAXSIZE> handle = {};
  void *window = nullptr, *signals = nullptr;
  alignas(4096) std::array<char, kBytes> data = {};
  alignas(4096) std::array<uint64_t, 512> values = {};
};

class Pair {
 public:
  explicit Pair(const cli::PluginOptions& options) {
    auto loaded = cli::loadRma(options);
    if (!loaded.ok()) throw DoesNotApply("it exports no ncclRmaPlugin_v13 to _v16");
    auto& kept = *new cli::LoadedRma(std::move(*loaded));  // never unloaded, as in Subject
    for (std::size_t i = 0; i < kRanks; ++i) {
      Rank& rank = *(ranks_[i] = std::make_unique<Rank>(*kept.api));
      const auto devices = cli::startRma(*rank.api, 1);
      if (!devices.ok()) throw Broken(devices.error());
      rank.need(rank.member.listen(0, rank.handle.data()));
      rank.other = static_cast<uint32_t>(1 - i);
    }
    both([this](Rank& rank) {
      std::array<void*, kRanks> handles = {ranks_[0]->handle.data(), ranks_[1]->handle.data()};
      rank.need(rank.member.join(handles, static_cast<int>(1 - rank.other)));
      rank.window = rank.member.add(rank.data.data(), kBytes, 0);
      rank.signals = rank.member.add(rank.values.data(), sizeof rank.values, cli::kRmaSignalFlags);
      rank.need(rank.window != nullptr && rank.signals != nullptr);
    });
  }
  Rank& operator[](std::size_t i) { return *ranks_[i]; }

  // `work` for each rank in a thread of its own. A rank with an error closes, as NCCL does. Returns the
  // errors; throws Broken if anything else was wrong.
  std::vector<std::string> errorsOf(const std::function<void(Rank&)>& work) {
    std::array<std::string, kRanks> problems, refusals;
    const auto guarded = [&](std::size_t i) {
      try {
        work(*ranks_[i]);
      } catch (const Refused& refused) {
        refusals[i] = refused.what();
        (void)ranks_[i]->member.close();
      } catch (const Broken& broken) {
        problems[i] = broken.what();
      }
    };
    std::thread other(guarded, 1);
    guarded(0);
    other.join();
    for (const std::string& problem : problems)
      if (!problem.empty()) throw Broken(problem);
    std::vector<std::string> errors(refusals.begin(), refusals.end());
    std::erase(errors, "");
    return errors;
  }
  void both(const std::function<void(Rank&)>& work) {
    if (const auto errors = errorsOf(work); !errors.empty()) throw Broken(errors.front());
  }

  void close() {
    both([](Rank& rank) {
      rank.need(rank.member.close());
      must(rank.api->finalize(), "finalize");
    });
  }

 private:
  std::array<std::unique_ptr<Rank>, kRanks> ranks_;
};

std::string put(const cli::PluginOptions& plugin) {
  Pair pair(plugin);
  Rank &origin = pair[0], &target = pair[1];
  for (const std::size_t bytes : {1UL, 8UL, 4097UL, 300'000UL}) {
    const char mark = static_cast<char>(bytes % 250 + 1);
    origin.data.fill(mark);
    origin.finish(origin.post(cli::RmaKind::kPut, {origin.window, 3}, bytes, {origin.window, 5}), &target);
    until("the data of a put", [&] {
      target.progress();
      return std::memcmp(target.data.data() + 5, origin.data.data() + 3, bytes) == 0;
    });
    if (target.data[4] == mark || target.data[5 + bytes] == mark)
      throw Broken("a put writes beyond its place");
  }
  pair.close();
  return "";
}

// Both ranks put to each other; after each signal the data before it must be there, and no signal comes
// twice.
void exchange(Rank& rank) {
  constexpr uint64_t kPuts = 400, kPlaces = 200, kAhead = 150;
  constexpr std::size_t kEach = 2000, kArriving = kBytes / 2;
  uint64_t seen = 0;  // messages of the other rank
  const auto number = [&](uint64_t message, std::size_t where) {
    return rank.data.data() + where + message % kPlaces * kEach + kEach - sizeof(uint64_t);
  };
  const auto look = [&] {
    rank.progress();
    const uint64_t value = rank.value();
    if (value < seen * Rank::kAdded || value > kPuts * Rank::kAdded || value % Rank::kAdded != 0)
      throw Broken("a signal to which 3 is added shows " + std::to_string(value));
    for (; seen * Rank::kAdded < value; ++seen) {
      uint64_t written = 0;
      std::memcpy(&written, number(seen, kArriving), sizeof written);
      if (written < seen + 1) throw Broken("signal " + std::to_string(seen) + " is there before its data");
    }
  };
  for (uint64_t i = 0; i < kPuts; ++i) {
    until(
        "the other rank's puts", [&] { return look(), seen + kAhead > i; }, kPatience);
    const uint64_t mark = i + 1;
    std::memcpy(number(i, 0), &mark, sizeof mark);
    const std::size_t at = i % kPlaces * kEach;
    rank.finish(rank.post(cli::RmaKind::kPutSignal, {rank.window, at}, kEach, {rank.window, kArriving + at}));
  }
  until(
      "the last signal", [&] { return look(), seen == kPuts; }, kPatience);
  const Deadline later = Deadline::after(std::chrono::milliseconds(300));
  while (!later.passed()) look();
}

std::string signals(const cli::PluginOptions& plugin) {
  Pair pair(plugin);
  pair.both(exchange);
  pair.close();
  return "";
}

std::string signalsOverAFault(const cli::PluginOptions& plugin) {
  Pair pair(plugin);
  const std::size_t errors = pair.errorsOf(exchange).size();
  return errors == 0 ? "goes on" : errors == 1 ? "an error at one rank" : "an error at both ranks";
}

std::string get(const cli::PluginOptions& plugin) {
  Pair pair(plugin);
  if (!pair[0].api->canGet()) throw DoesNotApply("the table has no iget");
  Rank& reader = pair[0];
  pair[1].data.fill(0x77);
  constexpr std::size_t kRead = 70'000, kFrom = 11, kTo = 40;
  reader.finish(reader.post(cli::RmaKind::kGet, {reader.window, kTo}, kRead, {reader.window, kFrom}),
                &pair[1]);
  for (std::size_t i = 0; i < kBytes; ++i) {
    const bool read = i >= kTo && i < kTo + kRead;
    if (reader.data[i] != (read ? 0x77 : 0))
      throw Broken("what a get has read is wrong at byte " + std::to_string(i));
  }
  pair.close();
  return "";
}

constexpr Check kChecks[] = {
    {"one-sided.put", Kind::kContract, "a put of 1 byte to 300 KB writes its place and nothing else", put},
    {"one-sided.signals", Kind::kContract,
     "a signal never comes before its data, never twice; ranks that put to each other", signals, "", 60},
    {"one-sided.get", Kind::kContract, "a get reads the other rank's window", get},
    {"one-sided.port", Kind::kFaults, "signals over a port that goes down", signalsOverAFault,
     "device=* opcode=any nth=150 port=down", 150},
};

}  // namespace

std::span<const Check> oneSidedChecks() { return kChecks; }

}  // namespace railwise::conform
