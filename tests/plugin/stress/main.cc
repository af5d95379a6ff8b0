// plugin_stress: what NCCL's proxies do with the built plugin, eight communicators at once and at random:
// connect, transfer, abort, close, finalize, init again. Exit status 0 when all was right; what was wrong, or
// what everybody waits for when nothing moves any more, is printed with the seed and the round.
#include <dlfcn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "plugin/kernel_leaks.h"
#include "plugin/stress/disturber.h"
#include "plugin/stress/world.h"
#include "plugin/test_device.h"

namespace railwise::test {
namespace {

using Clock = std::chrono::steady_clock;

// Of two communicators.
int worlds() { return onIwarp() ? 1 : 4; }
constexpr int kDevices = 4;
constexpr std::size_t kMostQueuePairs = 32;  // of a connection
constexpr auto kPatience = std::chrono::seconds(120);

struct Settings {
  uint64_t seconds = 30;
  uint64_t rounds = UINT64_MAX;  // of each world
  uint64_t seed = 1;
  std::string variant;  // empty: all, one after the other
};

// On real devices (test_device.h) only those that ask nothing of the software device, on as many devices as
// there are.
struct Variant {
  // Of siw a process has no more than some nine connections at a time (docs/develop/kernel-lab.md), and the
  // context that versions 6 to 10 share keeps attempts to connect that were left.
  bool possible() const { return !onRealDevices() || (anywhere && !(onIwarp() && version <= 10)); }

  const char* name;
  int version;  // of the API
  const char* link;
  const char* modes;      // of the software device
  uint64_t epoch_rounds;  // after which the plugin is unloaded and loaded again; 0: never
  bool disturbed;         // ports go down and up, and change their addresses
  bool anywhere;          // on real devices too
  uint64_t share;         // of the time, in tenths
};
constexpr Variant kVariants[] = {
    {"contexts", 12, "roce", "engine=on,adversarial=on", 0, false, true, 3},
    {"paced", 12, "ib", "engine=on,pacing=on,latency_ns=50000", 0, false, false, 2},
    {"shared", 10, "ib", "adversarial=on", 0, false, true, 2},
    {"reload", 12, "roce", "engine=on", 6, false, true, 1},
    {"iwarp", 11, "iwarp", "engine=on,adversarial=on", 0, false, false, 1},
    {"ports", 12, "roce", "engine=on", 0, true, false, 1},
};

template <typename A>
class Stress {
 public:
  Stress(const Settings& settings, const Variant& variant) : settings_(settings), variant_(variant) {
    softdev::Random random(settings.seed);
    for (std::size_t i = 0; i + 8 <= process_.source.bytes(); i += 8) {
      const uint64_t word = random.next();
      std::memcpy(process_.source.data() + i, &word, sizeof word);
    }
    for (int i = 0; i < worlds(); ++i)
      worlds_.push_back(std::make_unique<World<A>>(process_, settings.seed, i));
  }

  void run() {
    const auto end = Clock::now() + std::chrono::seconds(settings_.seconds);
    uint64_t left = settings_.rounds;
    process_.disturbed.store(variant_.disturbed);
    makeDevices();
    if (onRealDevices()) warmUp();
    const std::size_t files = openFiles().size();
    // Under the thread sanitizer nobody may look for data that another thread writes without a word.
    process_.abilities = {!kThreadSanitizer, !iwarp()};
    while (left > 0 && !over_.load()) {
      const uint64_t rounds = variant_.epoch_rounds > 0 ? std::min(left, variant_.epoch_rounds) : left;
      epoch(rounds, end);
      left -= rounds;
      if (variant_.epoch_rounds > 0) {
        reload();
        makeDevices();
      }
      clearLog();
    }
    print();
    if (const std::vector<std::string> open = openFiles(); A::kHasContext && open.size() > files) {
      std::string names;
      for (const std::string& name : open) names += " " + name;
      fail(std::to_string(open.size()) + " files are open, " + std::to_string(files) +
           " were at the beginning:" + names);
    }
    checkKernel();
    const Totals& totals = process_.totals;
    if (totals.messages.load() == 0 || totals.connections.load() == 0) fail("nothing was sent");
  }

 private:
  static std::vector<std::string> openFiles() {
    std::vector<std::string> files;
    std::error_code gone;  // the one that reads the directory
    for (const auto& file : std::filesystem::directory_iterator("/proc/self/fd"))
      files.push_back(std::filesystem::read_symlink(file.path(), gone).string());
    return files;
  }

  // librdmacm keeps the devices open that it has met.
  static void warmUp() {
    const Session<A> session;
    const Pair<A> pair(session);
  }

  bool iwarp() const { return onRealDevices() ? onIwarp() : variant_.link == std::string("iwarp"); }

  // When the last communicator is gone.
  void checkKernel() const {
    if (!onRealDevices()) return;
    const std::size_t forgotten = A::kHasContext ? 0 : process_.totals.forgotten.load() * kMostQueuePairs;
    const std::string left =
        leftBehind(kernelObjects(getpid()), {!A::kHasContext, process_.devices.size(), 0, forgotten});
    if (!left.empty()) fail(left);
  }

  // As NCCL does at its first communicator: the number of physical devices, then the virtual ones.
  void makeDevices() {
    void* context = nullptr;
    if (A::init(&context) != ncclSuccess) fail("init failed");
    int count = 0;
    const int physical = deviceCount(kDevices);
    if (A::table().devices(&count) != ncclSuccess || (count != physical && loads_ > 0 && A::kHasContext))
      fail("there are " + std::to_string(count) + " devices");
    std::vector<int> devices(static_cast<std::size_t>(physical));
    std::iota(devices.begin(), devices.end(), 0);
    for (const std::vector<int>& members : {std::vector<int>{0, 1}, {2, 3}, {3, 0, 1, 2}, {1, 2, 3}}) {
      if (*std::ranges::max_element(members) >= physical) continue;
      typename std::conditional_t<A::kVersion == 12, ncclNetVDeviceProps_v12_t, ncclNetVDeviceProps_v9_t>
          props = {};
      props.ndevs = static_cast<int>(members.size());
      std::copy(members.begin(), members.end(), props.devs);
      int index = -1;
      if (A::table().makeVDevice(&index, &props) != ncclSuccess) fail("makeVDevice failed");
      if (index != static_cast<int>(devices.size()))
        fail("a virtual device has index " + std::to_string(index));
      devices.push_back(index);
    }
    process_.devices = devices;
    if (A::finalize(context) != ncclSuccess) fail("finalize failed");
    ++loads_;
  }

  void epoch(uint64_t rounds, Clock::time_point end) {
    std::vector<std::thread> threads;
    for (auto& world : worlds_)
      threads.emplace_back([&world, this, rounds] { world->run({rounds, &over_}); });
    watch(end);
    for (std::thread& thread : threads) thread.join();
  }

  // Until all worlds have ended; says when the time is over, and notices when nothing moves any more.
  void watch(Clock::time_point end) {
    std::map<const World<A>*, std::pair<uint64_t, Clock::time_point>> seen;
    for (;;) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      const auto now = Clock::now();
      if (now > end) over_.store(true);
      bool running = false;
      for (const auto& world : worlds_) {
        running |= !world->ended();
        const uint64_t moves = world->moves();
        auto& [before, since] = seen.try_emplace(world.get(), UINT64_MAX, now).first->second;
        if (moves != before || world->ended()) {
          before = moves;
          since = now;
        } else if (now - since > kPatience) {
          std::string text = "nothing moves any more in a world\n";
          for (const auto& each : worlds_) text += each->state();
          fail(text);
        }
      }
      if (!running) break;
    }
    for (const auto& world : worlds_) world->begin();
  }

  // As NCCL 2.28 and later with the last communicator. The plugin stays in memory (-z nodelete).
  void reload() {
    if (dlclose(g_plugin) != 0) fail("dlclose");
    g_plugin = loadPlugin();
    const std::string symbol = "ncclNetPlugin_v" + std::to_string(A::kVersion);
    if (dlsym(g_plugin, symbol.c_str()) != &A::table()) fail("the plugin has moved");
    process_.totals.reloads.fetch_add(1);
  }

  void print() const {
    const Totals& t = process_.totals;
    const auto n = [](const std::atomic<uint64_t>& value) {
      return static_cast<unsigned long long>(value.load());
    };
    std::printf(
        "%s, seed %llu: %llu rounds, %llu of them aborted (%llu ranks found out by themselves), %llu "
        "connection ends (%llu forgotten), %llu messages, %llu bytes, %llu flushes, %llu registrations, %llu "
        "forks, %llu reloads, %llu failed calls while ports changed\n",
        variant_.name, static_cast<unsigned long long>(settings_.seed), n(t.rounds), n(t.aborts),
        n(t.aborts_found_out), n(t.connections), n(t.forgotten), n(t.messages), n(t.bytes), n(t.flushes),
        n(t.registrations), n(t.forks), n(t.reloads), n(t.failed_by_disturbance));
  }

  static inline void* g_plugin = openPlugin();
  const Settings& settings_;
  const Variant& variant_;
  Process process_;
  std::vector<std::unique_ptr<World<A>>> worlds_;
  std::atomic<bool> over_ = false;
  int loads_ = 0;
};

template <int V>
void runVersion(const Settings& settings, const Variant& variant) {
  Stress<Api<V>> stress(settings, variant);
  stress.run();
}

int runVariant(const Settings& settings, const Variant& variant) {
  const std::string fabric = "stress" + std::to_string(getpid());
  useDevice();
  const std::string device = "software:link=" + std::string(variant.link) +
                             ",count=" + std::to_string(kDevices) + ",fabric=" + fabric + "," + variant.modes;
  if (!onRealDevices()) setenv("RAILWISE_DEVICE", device.c_str(), 1);
  const Disturber disturber(variant.disturbed ? fabric : "", settings.seed);
  if (variant.disturbed) setenv("NCCL_IB_TIMEOUT", "8", 1);  // 1 ms: a port that is down is noticed soon
  switch (variant.version) {
    case 10:
      runVersion<10>(settings, variant);
      break;
    case 11:
      runVersion<11>(settings, variant);
      break;
    default:
      runVersion<12>(settings, variant);
  }
  return 0;
}

// Each variant in a process of its own: that of the shared context lives as long as its process.
int runAll(const Settings& settings) {
  int failures = 0;
  for (const Variant& variant : kVariants) {
    if (!variant.possible()) continue;
    std::fflush(stdout);
    const std::string seconds = std::to_string(std::max<uint64_t>(settings.seconds * variant.share / 10, 1));
    const std::string rounds = std::to_string(settings.rounds);
    const std::string seed = std::to_string(settings.seed);
    const pid_t child = fork();
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      execl("/proc/self/exe", "plugin_stress", "--variant", variant.name, "--seconds", seconds.c_str(),
            "--rounds", rounds.c_str(), "--seed", seed.c_str(), nullptr);
      _exit(127);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
      std::printf("%s failed (status 0x%x)\n", variant.name, status);
      ++failures;
    }
  }
  return failures == 0 ? 0 : 1;
}

int usage() {
  std::fputs("plugin_stress [--seconds N] [--rounds N] [--seed N] [--variant ", stderr);
  for (const Variant& variant : kVariants)
    std::fprintf(stderr, "%s%s", &variant == kVariants ? "" : "|", variant.name);
  std::fputs("]\n", stderr);
  return 2;
}

int run(int argc, char** argv) {
  Settings settings;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string key = argv[i];
    const std::string value = argv[i + 1];
    if (key == "--seconds") settings.seconds = std::strtoull(value.c_str(), nullptr, 10);
    else if (key == "--rounds") settings.rounds = std::strtoull(value.c_str(), nullptr, 10);
    else if (key == "--seed") settings.seed = std::strtoull(value.c_str(), nullptr, 10);
    else if (key == "--variant") settings.variant = value;
    else return usage();
  }
  if (argc % 2 == 0) return usage();
  if (settings.variant.empty()) return runAll(settings);
  for (const Variant& variant : kVariants)
    if (settings.variant == variant.name && variant.possible()) return runVariant(settings, variant);
  return usage();
}

}  // namespace
}  // namespace railwise::test

int main(int argc, char** argv) {
  if (argc == 4 && std::strcmp(argv[1], "--disturb") == 0) return railwise::test::disturb(argv[2], argv[3]);
  return railwise::test::run(argc, argv);
}
