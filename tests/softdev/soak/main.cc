// softdev_soak: random traffic of many processes over the software device, every byte and every completion
// checked. Exit status 0 when all was right; what was wrong is printed with the seed that shows it again.
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "softdev/soak/end.h"

namespace railwise::softdev::soak {
namespace {

using Clock = std::chrono::steady_clock;

// The ends of process `p`: end e belongs to process owner(e). Most connections join two processes.
uint32_t owner(const Settings& settings, uint32_t end) {
  Random random(settings.seed * 31 + end);
  return static_cast<uint32_t>(end < settings.processes ? end : random.below(settings.processes));
}

uint32_t slotBytes(uint32_t connection) { return connection % 32 == 5 ? 32768 : 1024; }

std::string deviceConfig(const Settings& settings, uint32_t process) {
  Random random(settings.seed + 977 * process);
  constexpr const char* kMovers[] = {"auto", "vm", "mem"};
  std::string text =
      "fabric=soak" + std::to_string(getppid()) + ",seed=" + std::to_string(settings.seed + process);
  if (settings.faults && process == 0) {
    // Armed for all by the first process; each is rare.
    const std::string seed = " seed=" + std::to_string(settings.seed);
    for (const char* rule :
         {"opcode=write+read status=rem_access_err probability=0.0002", "opcode=send drop probability=0.0002",
          "opcode=any delay=200us probability=0.0005", "opcode=write_imm rnr=2 probability=0.0005",
          "opcode=any status=retry_exc_err probability=0.0001", "opcode=any qp_fatal probability=0.00005"})
      text += ",fault=" + std::string(rule) + seed;
  }
  text += ";name=soft0,link=ib,mover=" + std::string(kMovers[random.below(3)]);
  if (settings.engine) text += ",engine=on";
  if (settings.adversarial) text += ",adversarial=on";
  return text;
}

// Half of the processes have memory that others can map.
std::byte* allocate(uint64_t bytes, bool shared) {
  int fd = -1;
  if (shared) {
    fd = memfd_create("softdev-soak", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, static_cast<off_t>(bytes)) != 0) throw Wrong{"memfd"};
  }
  void* memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, shared ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, fd, 0);
  if (memory == MAP_FAILED) throw Wrong{"mmap"};
  return static_cast<std::byte*>(memory);
}

class Process {
 public:
  Process(Control& control, const Settings& settings, uint32_t number)
      : control_(control), settings_(settings), number_(number), report_(control.processes[number]) {}

  void run() {
    open();
    const auto over = Clock::now() + std::chrono::seconds(settings_.seconds);
    constexpr auto kPatience = std::chrono::seconds(60);
    auto last_move = Clock::now();
    bool counted = false;
    while (control_.leave.load() == 0 && control_.broken.load() == 0) {
      const bool moved = work();
      const auto now = Clock::now();
      if (moved) last_move = now;
      if (now > over) control_.over.store(1);
      bool idle = control_.over.load() != 0;
      for (const auto& end : ends_) idle = idle && end->idle();
      if (idle) last_move = now;
      if (idle && !counted) control_.idle.fetch_add(1);
      counted = counted || idle;
      // Connections that a fault has broken just now may still have to be mended: with the peers' help.
      if (now - last_move > kPatience) throw Wrong{"nothing has moved for a minute"};
      if (!moved) std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    ends_.clear();
    if (deregMr(mr_) != 0 || destroyCq(cq_) != 0 || deallocPd(pd_) != 0 || closeDevice(context_) != 0)
      throw Wrong{"something was left at the end"};
  }

 private:
  void open() {
    if (!configure(deviceConfig(settings_, number_).c_str()).ok()) throw Wrong{"configure"};
    int count = 0;
    ibv_device** list = getDeviceList(&count);
    context_ = count > 0 ? openDevice(list[0]) : nullptr;
    freeDeviceList(list);
    if (context_ == nullptr) throw Wrong{std::string("open_device: ") + std::strerror(errno)};
    std::vector<uint32_t> mine;
    uint64_t bytes = 0;
    for (uint32_t end = 0; end < settings_.queue_pairs; ++end) {
      if (owner(settings_, end) != number_) continue;
      mine.push_back(end);
      bytes += End::memoryBytes(slotBytes(end / 2));
    }
    pd_ = allocPd(context_);
    cq_ = createCq(context_, static_cast<int>(mine.size() * (kSends + kReceives) + 1), nullptr, nullptr, 0);
    std::byte* memory = allocate(bytes + 1, number_ % 2 == 0);
    unsigned access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    if (settings_.atomics) access |= IBV_ACCESS_REMOTE_ATOMIC;
    mr_ = regMr(pd_, memory, bytes + 1, static_cast<int>(access));
    if (cq_ == nullptr || mr_ == nullptr) throw Wrong{std::string("set-up: ") + std::strerror(errno)};
    for (const uint32_t end : mine) {
      const Resources resources{&control_, &settings_, &report_, context_, pd_, cq_, mr_};
      ends_.push_back(std::make_unique<End>(resources, end, memory, slotBytes(end / 2)));
      memory += End::memoryBytes(slotBytes(end / 2));
      by_number_[ends_.back()->qpNum()] = ends_.back().get();
    }
  }

  bool work() {
    bool moved = false;
    ibv_wc wc[32];
    for (int found = 1; found > 0;) {
      found = ibv_poll_cq(cq_, 32, wc);
      if (found < 0) throw Wrong{"poll_cq"};
      for (int i = 0; i < found; ++i) {
        const auto end = by_number_.find(wc[i].qp_num);
        if (end == by_number_.end()) throw Wrong{"a completion of an unknown queue pair"};
        end->second->complete(wc[i]);
      }
      moved |= found > 0;
    }
    for (const auto& end : ends_) moved |= end->step();
    return moved;
  }

  Control& control_;
  const Settings& settings_;
  uint32_t number_;
  ProcessReport& report_;
  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_cq* cq_ = nullptr;
  ibv_mr* mr_ = nullptr;
  std::vector<std::unique_ptr<End>> ends_;
  std::unordered_map<uint32_t, End*> by_number_;
};

[[noreturn]] void runChild(Control& control, const Settings& settings, uint32_t number) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  try {
    Process process(control, settings, number);
    process.run();
  } catch (const Wrong& wrong) {
    ProcessReport& report = control.processes[number];
    std::snprintf(report.message, sizeof report.message, "%s", wrong.what.c_str());
    report.failed.store(1);
    control.broken.store(1);
    _exit(1);
  }
  _exit(0);
}

bool number(const char* text, uint64_t* value) {
  char* end = nullptr;
  *value = std::strtoull(text, &end, 10);
  return end != text && *end == 0;
}

int usage() {
  std::fputs(
      "softdev_soak [--processes N] [--queue-pairs N] [--seconds N] [--seed N] [--engine on|off] "
      "[--adversarial on|off] [--faults on|off]\n",
      stderr);
  return 2;
}

bool parse(int argc, char** argv, Settings* settings) {
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string key = argv[i];
    const std::string value = argv[i + 1];
    const bool on = value == "on";
    uint64_t n = 0;
    if (key == "--engine" && (on || value == "off")) {
      settings->engine = on;
    } else if (key == "--adversarial" && (on || value == "off")) {
      settings->adversarial = on;
    } else if (key == "--faults" && (on || value == "off")) {
      settings->faults = on;
    } else if (!number(argv[i + 1], &n)) {
      return false;
    } else if (key == "--processes" && n >= 1 && n <= kMaxProcesses) {
      settings->processes = static_cast<uint32_t>(n);
    } else if (key == "--queue-pairs" && n >= 2 && n <= kMaxEnds && n % 2 == 0) {
      settings->queue_pairs = static_cast<uint32_t>(n);
    } else if (key == "--seconds" && n <= 86400) {
      settings->seconds = static_cast<uint32_t>(n);
    } else if (key == "--seed") {
      settings->seed = n;
    } else {
      return false;
    }
  }
  return argc % 2 == 1;
}

// Waits for all children; tells them to leave when all are idle.
int watch(Control& control, const Settings& settings) {
  int failures = 0;
  uint32_t left = settings.processes;
  while (left > 0) {
    int status = 0;
    const pid_t gone = waitpid(-1, &status, WNOHANG);
    if (gone > 0) {
      --left;
      if (status != 0) {
        ++failures;
        control.broken.store(1);
      }
      if (WIFSIGNALED(status)) std::printf("process %d died of signal %d\n", gone, WTERMSIG(status));
      continue;
    }
    if (control.idle.load() == settings.processes) control.leave.store(1);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return failures;
}

void print(const Control& control, const Settings& settings) {
  uint64_t rounds = 0;
  uint64_t operations = 0;
  uint64_t bytes = 0;
  uint64_t reconnects = 0;
  uint64_t statuses[32] = {};
  for (uint32_t p = 0; p < settings.processes; ++p) {
    const ProcessReport& report = control.processes[p];
    rounds += report.rounds.load();
    operations += report.operations.load();
    bytes += report.bytes.load();
    reconnects += report.reconnects.load();
    for (int i = 0; i < 32; ++i) statuses[i] += report.statuses[i].load();
    if (report.failed.load() != 0) std::printf("process %u: WRONG: %s\n", p, report.message);
  }
  std::printf(
      "%u processes, %u queue pairs, seed %llu: %llu rounds, %llu requests, %llu bytes, %llu broken ends\n",
      settings.processes, settings.queue_pairs, static_cast<unsigned long long>(settings.seed),
      static_cast<unsigned long long>(rounds), static_cast<unsigned long long>(operations),
      static_cast<unsigned long long>(bytes), static_cast<unsigned long long>(reconnects));
  for (int i = 0; i < 32; ++i) {
    if (statuses[i] != 0)
      std::printf("  %s: %llu\n", wcStatusStr(static_cast<ibv_wc_status>(i)),
                  static_cast<unsigned long long>(statuses[i]));
  }
}

int run(const Settings& settings) {
  void* memory = mmap(nullptr, sizeof(Control), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 1;
  Control& control = *new (memory) Control{};
  for (uint32_t p = 0; p < settings.processes; ++p) {
    const pid_t child = fork();
    if (child < 0) return 1;
    if (child == 0) runChild(control, settings, p);
  }
  const int failures = watch(control, settings);
  print(control, settings);
  const bool enough = control.processes[0].rounds.load() > 0;
  if (!enough) std::printf("no round was completed\n");
  return failures == 0 && enough ? 0 : 1;
}

}  // namespace
}  // namespace railwise::softdev::soak

int main(int argc, char** argv) {
  railwise::softdev::soak::Settings settings;
  if (!railwise::softdev::soak::parse(argc, argv, &settings)) return railwise::softdev::soak::usage();
  return railwise::softdev::soak::run(settings);
}
