#include "gpu/vendor.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <optional>

#include "gpu/json.h"

namespace railwise::gpu {
namespace {

// A library that writes without end is not read without end. 256 GPUs, each linked to each, need 12 MB.
constexpr std::size_t kMaxAnswer = 64u << 20;
// Ends an answer. The library may have written over the child's memory or have started a process that holds
// the pipe open, so the end of the pipe does not tell whether the answer is whole.
constexpr char kAnswerEnd = '\0';
// How long a killed child may take to disappear. One that hangs in the driver cannot be killed at all.
constexpr Clock::duration kKillTime = std::chrono::milliseconds(200);

void writeAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

// The child's whole life. It ends by _exit: the parent's exit handlers and buffers are not the child's.
[[noreturn]] void askInChild(const GpuVendor& vendor, int answer_fd, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);  // the parent ended before prctl
  // A crash shall be seen as a crash, whatever handlers the parent has, and leave no core file.
  for (const int number : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTERM}) std::signal(number, SIG_DFL);
  std::signal(SIGPIPE, SIG_IGN);
  const rlimit no_core = {0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  // Libraries print. What they say would stand in the middle of the command's output.
  if (const int null = open("/dev/null", O_RDWR); null >= 0) {
    dup2(null, STDIN_FILENO);
    dup2(null, STDOUT_FILENO);
    dup2(null, STDERR_FILENO);
  }
  std::string bytes;
  try {
    GpuTopology topology;
    if (Outcome<void> read = vendor.read(topology); !read.ok()) topology.remarks.push_back(read.error());
    bytes = jsonOf(topology) + kAnswerEnd;
  } catch (...) {
    _exit(3);
  }
  writeAll(answer_fd, bytes);
  _exit(0);
}

// What a library has said, or how it failed.
struct Told {
  GpuTopology topology;
  std::string failure;  // "... crashed (signal SIGSEGV)"; empty: it has answered
  std::string advice;   // "Try nvidia-smi"
};

// One library that is being asked.
class Asked {
 public:
  Asked(const GpuVendor& vendor, int fd, pid_t pid) : vendor_(&vendor), fd_(fd), pid_(pid) {}
  Asked(Asked&& other) noexcept
      : vendor_(other.vendor_),
        fd_(std::exchange(other.fd_, -1)),
        pid_(std::exchange(other.pid_, -1)),
        bytes_(std::move(other.bytes_)),
        whole_(other.whole_),
        done_(other.done_) {}
  Asked& operator=(Asked&&) = delete;
  ~Asked() {
    if (fd_ >= 0) close(fd_);
    if (pid_ > 0) kill(pid_, SIGKILL);
  }

  static Outcome<Asked> start(const GpuVendor& vendor) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return Error{std::string("pipe: ") + std::strerror(errno)};
    const pid_t parent = getpid();
    const pid_t pid = fork();
    if (pid == 0) {
      close(ends[0]);
      askInChild(vendor, ends[1], parent);
    }
    const int error = errno;
    close(ends[1]);
    if (pid < 0) {
      close(ends[0]);
      return Error{std::string("fork: ") + std::strerror(error)};
    }
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    return Asked(vendor, ends[0], pid);
  }

  int fd() const { return fd_; }
  bool done() const { return done_; }

  // Takes in what has come.
  void receive() {
    char buffer[65536];
    for (;;) {
      const ssize_t got = ::read(fd_, buffer, sizeof buffer);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && errno == EAGAIN) return;
      if (got <= 0) break;
      bytes_.append(buffer, static_cast<std::size_t>(got));
      whole_ = bytes_.back() == kAnswerEnd;
      if (whole_ || bytes_.size() > kMaxAnswer) break;
    }
    done_ = true;
  }

  Told finish(Clock::duration limit) {
    Told told;
    told.advice = "Try " + vendor_->program();
    const std::optional<int> status = end();
    if (!done_) {
      silent(told, limit, status.has_value());
      return told;
    }
    Outcome<GpuTopology> answer = Error{"its answer is cut off"};
    if (whole_) answer = parseJson(std::string_view(bytes_).substr(0, bytes_.size() - 1));
    if (answer.ok()) told.topology = std::move(*answer);
    else told.failure = failed(status, answer.error());
    sanitize(told.topology, vendor_->name());
    return told;
  }

 private:
  // Ends the child and returns its wait status, if it can be had.
  std::optional<int> end() {
    // A child that has answered, or crashed, is about to end by itself: its status then tells how.
    const bool by_itself = done_ && bytes_.empty();
    if (!by_itself) kill(pid_, SIGKILL);
    for (const Deadline deadline = Deadline::after(kKillTime);;) {
      int status = 0;
      const pid_t waited = waitpid(pid_, &status, WNOHANG);
      if (waited == pid_ || (waited < 0 && errno != EINTR)) {
        pid_ = -1;
        return waited > 0 ? std::optional(status) : std::nullopt;
      }
      if (deadline.passed()) return std::nullopt;
      usleep(1000);
    }
  }

  void silent(Told& told, Clock::duration limit, bool ended) const {
    const double seconds = std::chrono::duration<double>(limit).count();
    char time[32];
    std::snprintf(time, sizeof time, "%.3g", seconds);
    told.failure = vendor_->name() + " did not answer within " + time + " s";
    told.advice += "; when that hangs too, the kernel log (dmesg) tells what the driver waits for";
    if (!ended)
      told.advice +=
          ". Process " + std::to_string(pid_) + ", which asked, hangs in the driver and cannot be ended";
  }

  std::string failed(std::optional<int> status, const std::string& error) const {
    if (bytes_.empty() && status && WIFSIGNALED(*status)) {
      const int number = WTERMSIG(*status);
      const char* signal = sigabbrev_np(number);
      return vendor_->name() + " crashed (signal " +
             (signal != nullptr ? "SIG" + std::string(signal) : std::to_string(number)) + ")";
    }
    if (bytes_.empty())
      return vendor_->name() + " ended the process that asked it" +
             (status ? " (status " + std::to_string(WEXITSTATUS(*status)) + ")" : "");
    return vendor_->name() + ": the answer of the process that asked it cannot be read (" + error + ")";
  }

  const GpuVendor* vendor_;
  int fd_;
  pid_t pid_;
  std::string bytes_;
  bool whole_ = false;  // the end of the answer has come
  bool done_ = false;   // nothing more is read
};

void waitForAnswers(std::vector<Asked>& asked, const Deadline& deadline) {
  for (;;) {
    std::vector<pollfd> waiting;
    std::vector<Asked*> who;
    for (Asked& one : asked) {
      if (one.done()) continue;
      waiting.push_back({one.fd(), POLLIN, 0});
      who.push_back(&one);
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline.at() - Clock::now()).count();
    if (waiting.empty() || left <= 0) return;
    const int ready = poll(waiting.data(), waiting.size(), static_cast<int>(std::min<int64_t>(left, 60'000)));
    if (ready < 0 && errno != EINTR) return;
    for (std::size_t i = 0; ready > 0 && i < waiting.size(); ++i)
      if (waiting[i].revents != 0) who[i]->receive();
  }
}

bool hasDevicesOf(const GpuTopology& topology, Vendor vendor) {
  return std::any_of(topology.gpus.begin(), topology.gpus.end(),
                     [vendor](const Device& device) { return device.vendor == vendor; });
}

// Appends `more`, whose indexes begin at 0. If `whole` has GPUs of this vendor already, `more` has the same
// GPUs from another library, and nothing of it is appended.
void append(GpuTopology& whole, GpuTopology more, Vendor vendor) {
  if (hasDevicesOf(whole, vendor)) return;
  std::move(more.remarks.begin(), more.remarks.end(), std::back_inserter(whole.remarks));
  const int first = static_cast<int>(whole.gpus.size());
  const auto shift = [first](int& index) { index = index < 0 ? index : index + first; };
  for (Device& device : more.gpus) {
    device.vendor = vendor;
    shift(device.index);
    shift(device.parent);
    whole.gpus.push_back(std::move(device));
  }
  for (Link& link : more.links) {
    shift(link.from);
    shift(link.to);
    whole.links.push_back(std::move(link));
  }
  for (PeerStatus& peer : more.peers) {
    shift(peer.from);
    shift(peer.to);
    whole.peers.push_back(std::move(peer));
  }
}

// `of`: the vendor of each library in `told`.
void remarkFailures(GpuTopology& topology, const std::vector<Told>& told, const std::vector<Vendor>& of) {
  for (std::size_t i = 0; i < told.size(); ++i) {
    if (told[i].failure.empty()) continue;
    std::string rest = "its GPUs are missing here";
    if (hasDevicesOf(topology, of[i]))
      rest = std::string("another library has told of ") + topology::gpuVendorName(of[i]) + "'s GPUs";
    topology.remarks.push_back(told[i].failure + ": " + rest + ". " + told[i].advice);
  }
}

}  // namespace

std::vector<std::unique_ptr<GpuVendor>> allVendors(const Config& config) {
  std::vector<std::unique_ptr<GpuVendor>> vendors;
  vendors.push_back(makeNvml(config));
  vendors.push_back(makeAmdSmi(config));
  vendors.push_back(makeRocmSmi(config));
  return vendors;
}

Outcome<GpuTopology> readGpus(Clock::duration limit) { return readGpus(limit, allVendors()); }

Outcome<GpuTopology> readGpus(Clock::duration limit, const std::vector<std::unique_ptr<GpuVendor>>& vendors) {
  const Deadline deadline = Deadline::after(limit);
  GpuTopology topology;
  std::vector<Asked> asked;
  std::vector<Vendor> of;
  asked.reserve(vendors.size());
  for (const auto& vendor : vendors) {
    Outcome<Asked> started = Asked::start(*vendor);
    if (!started.ok()) {
      topology.remarks.push_back(vendor->name() + " was not asked: " + started.error());
      continue;
    }
    asked.push_back(std::move(*started));
    of.push_back(vendor->vendor());
  }
  if (asked.empty() && !vendors.empty())
    return Error{"no process could be started to ask for GPUs: " + topology.remarks.front()};
  waitForAnswers(asked, deadline);
  std::vector<Told> told;
  told.reserve(asked.size());
  for (std::size_t i = 0; i < asked.size(); ++i) {
    told.push_back(asked[i].finish(limit));
    append(topology, std::move(told[i].topology), of[i]);
  }
  remarkFailures(topology, told, of);
  return topology;
}

Outcome<VendorLibrary> openVendorLibrary(const std::string& setting, const std::vector<const char*>& names) {
  VendorLibrary opened;
  std::string problem;
  const auto tryOpen = [&](const char* name) {
    Outcome<DynamicLibrary> library = DynamicLibrary::open({name}, DynamicLibrary::Unload::kNever);
    if (library.ok()) {
      opened.library = std::make_unique<DynamicLibrary>(std::move(*library));
      return true;
    }
    // The dynamic linker has no code for it. A file that is there and does not load is worth a remark, and so
    // is a library that itself lacks another one.
    const std::string missing = std::string(name) + ": cannot open shared object file: No such file";
    if (!setting.empty() || !library.error().starts_with(missing)) problem = library.error();
    return false;
  };
  if (!setting.empty()) tryOpen(setting.c_str());
  else (void)std::any_of(names.begin(), names.end(), tryOpen);
  if (opened.library == nullptr && !problem.empty()) return Error{std::move(problem)};
  return opened;
}

std::string LibraryVendor::name() const {
  return std::string(topology::gpuVendorName(identity_.vendor)) + "'s library (" +
         (named() ? path_ : identity_.library) + ")";
}

Outcome<void> LibraryVendor::read(GpuTopology& topology) const {
  Outcome<VendorLibrary> opened = openVendorLibrary(path_, identity_.names);
  if (!opened.ok()) return Error{name() + " cannot be loaded: " + opened.error()};
  if (opened->library == nullptr) return {};
  return readLibrary(*opened, topology);
}

std::string bufferText(const char* buffer, std::size_t bytes, const std::string& what,
                       GpuTopology& topology) {
  const std::size_t length = strnlen(buffer, bytes);
  if (length < bytes) return std::string(buffer, length);
  topology.remarks.push_back(what + " has no end: it is left out");
  return "";
}

}  // namespace railwise::gpu
