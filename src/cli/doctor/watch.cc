// railwise doctor --watch: looks at this node's RDMA ports for as long as it runs; --health: what it knows,
// for the programs of a site.
#include "doctor/watch/watch.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/descriptor.h"
#include "base/files.h"
#include "base/process.h"
#include "base/settings/config.h"
#include "base/text/words.h"
#include "cli/options/command_line.h"
#include "cli/options/commands.h"
#include "cli/options/message.h"
#include "doctor/fingerprint/manifest.h"
#include "sysfs/file_tree.h"
#include "topo/sources/gpu_answers.h"

namespace railwise::cli {
namespace {

constexpr const char* kWatch = "doctor --watch";
constexpr const char* kHealth = "doctor --health";
constexpr const char* kStateFolder = "/var/lib/railwise";
constexpr int64_t kCountersSeconds = 10;
constexpr int64_t kSaveSeconds = 10;
constexpr int64_t kManifestSeconds = 60;
constexpr off_t kMostEventBytes = 1 << 20;  // of a file of events
constexpr int kOldEventFiles = 3;

constexpr const char* kWatchHelp =
    "usage: railwise doctor --watch [--state DIR] [options]\n\n"
    "Looks at the RDMA ports of this node every second, at their error counters every ten, and at the "
    "kernel's log;\n"
    "says when something begins to be wrong, repeats it each hour, and says when it is over. What it knows "
    "is in\n"
    "DIR/watch.json and outlives restarts and reboots; DIR/events.jsonl has the events (4 MiB at most, in 4 "
    "files).\n"
    "It runs until a signal ends it. railwise doctor --health reads the state; docs/doctor-watch.md has the "
    "rules, a\n"
    "unit for systemd, and adapters for Slurm, Kubernetes and Prometheus.\n"
    "Exit status: 0 ended by a signal, or after --looks; 1 the state cannot be written, or another watch "
    "writes it;\n2 a mistake on the command line.\n\n";

constexpr const char* kHealthHelp =
    "usage: railwise doctor --health FORM [--state DIR]\n\n"
    "What railwise doctor --watch knows of this node, without a look at the hardware:\n"
    "  text        one line; exit status 0 fine, 1 warnings, 2 errors, nobody watches, or no port was active "
    "yet\n"
    "  slurm       \"fine\", \"drain REASON\" or \"unknown REASON\"; exit status 0 "
    "(packaging/watch/slurm-health drains the node)\n"
    "  npd         for node-problem-detector: exit status 0 fine, 1 errors, 3 not known\n"
    "  npd-warning the same with warnings\n"
    "  prometheus  for node_exporter's textfile collector\n"
    "  nvsentinel  JSON of HealthEvents\n"
    "  json        the state\n\n";

struct WatchOptions {
  std::string state = kStateFolder;
  std::string textfile;
  std::string root;
  std::string manifest;
  bool json = false;
  bool list = false;
  int every_ms = 1000;
  int looks = 0;
};

std::vector<Option> watchOptions(WatchOptions& options) {
  return {textOption(0, "state", "DIR", &options.state,
                     "where it keeps what it knows (default /var/lib/railwise)"),
          textOption(0, "textfile", "FILE.prom", &options.textfile,
                     "also write metrics for node_exporter's textfile collector"),
          textOption(0, "root", "DIR", &options.root, "the machine whose /sys is below DIR"),
          textOption(0, "manifest", "FILE", &options.manifest,
                     "also compare the node with a manifest each minute (railwise doctor --save-manifest)"),
          flagOption('j', "json", &options.json, "print events as lines of JSON"),
          flagOption(0, "list", &options.list, "print the rules as JSON"),
          intOption(0, "every", &options.every_ms, 1, 60000, "milliseconds between two looks (default 1000)"),
          intOption(0, "looks", &options.looks, 0, 1 << 30, "end after so many looks (default 0: never)")};
}

volatile sig_atomic_t g_asked_to_end = 0;

// The new lines of the kernel's log. Without the right to read it there are none.
class KernelLog {
 public:
  KernelLog() : file_(open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC)) {
    if (file_.valid()) (void)lseek(file_.get(), 0, SEEK_END);
  }
  bool readable() const { return file_.valid(); }
  // "6,1234,98765,-;mlx5_core 0000:5e:00.0: ..." is one record; EPIPE: some were lost.
  std::vector<std::string> next() {
    std::vector<std::string> lines;
    std::array<char, 8192> record;
    while (file_.valid()) {
      const ssize_t got = read(file_.get(), record.data(), record.size());
      if (got < 0 && errno == EPIPE) continue;
      if (got <= 0) break;
      const std::string_view text(record.data(), static_cast<std::size_t>(got));
      const auto begin = text.find(';');
      if (begin != std::string_view::npos)
        lines.emplace_back(text.substr(begin + 1, text.find('\n') - begin - 1));
    }
    return lines;
  }

 private:
  Descriptor file_;
};

std::string stateFile(const std::string& folder) { return folder + "/watch.json"; }

// A state that cannot be read is kept beside the new one.
doctor::WatchState readState(const std::string& folder) {
  const Outcome<std::string> text = wholeFile(stateFile(folder));
  if (!text.ok()) return {};
  Outcome<doctor::WatchState> state = doctor::readWatchState(*text);
  if (state.ok()) return std::move(*state);
  const std::string old = stateFile(folder) + ".old";
  (void)std::rename(stateFile(folder).c_str(), old.c_str());
  say("%s: %s %s: the watch begins anew (the file is now %s)", kWatch, stateFile(folder).c_str(),
      state.error().c_str(), old.c_str());
  return {};
}

// Only one watch may write a folder: two would each undo what the other knows. The lock ends with the
// process. An error names the watch that has it. Where no lock can be had (no right, a file system without
// locks), the watch goes on; what it cannot write it says later.
Outcome<Descriptor> lockState(const std::string& folder) {
  const std::string path = folder + "/watch.lock";
  Descriptor file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644));
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  if (!file.valid() || fcntl(file.get(), F_SETLK, &lock) == 0 || (errno != EAGAIN && errno != EACCES))
    return file;
  (void)fcntl(file.get(), F_GETLK, &lock);
  return Error{path + ": another watch keeps its state in this folder" +
               (lock.l_type != F_UNLCK && lock.l_pid > 0 ? " (process " + std::to_string(lock.l_pid) + ")"
                                                         : " (a process that is not seen from here)") +
               ": end it, or give this one another folder (--state DIR)"};
}

// events.jsonl, and older ones as events.jsonl.1 to .3.
Outcome<void> addEvents(const std::string& folder, const std::string& lines) {
  const std::string path = folder + "/events.jsonl";
  struct stat now = {};
  if (stat(path.c_str(), &now) == 0 && now.st_size + static_cast<off_t>(lines.size()) > kMostEventBytes) {
    for (int i = kOldEventFiles; i > 0; --i) {
      const std::string older = path + "." + std::to_string(i);
      const std::string newer = i == 1 ? path : path + "." + std::to_string(i - 1);
      (void)std::rename(newer.c_str(), older.c_str());
    }
  }
  return appendToFile(path, lines);
}

// By the source of a rule: where the node is not as the manifest says. The GPUs' libraries are asked each
// time: a driver may come up later, and a GPU may be lost.
doctor::ManifestDifferences manifestDifferences(const std::string& text, const std::string& file,
                                                const sysfs::FileTree& tree, bool this_machine) {
  const auto gpus = topo::askForGpus(tree, this_machine, Config::load());
  const auto found = doctor::fingerprint::compareWithManifest(
      text, file, tree, gpus.ok() && *gpus != nullptr ? **gpus : gpu::GpuTopology());
  doctor::ManifestDifferences all;
  if (!found.ok()) return all;
  for (const auto& each : *found)
    if (each.read)
      all[each.device ? "devices" : "versions"].push_back(each.key + ": expected " + each.expected +
                                                          ", found " + each.found);
  return all;
}

class Watcher {
 public:
  explicit Watcher(const WatchOptions& options)
      : options_(options),
        rooted_(options.root.empty() ? nullptr : sysfs::makeLiveTree(options.root)),
        tree_(rooted_ != nullptr ? *rooted_ : sysfs::liveTree()),
        state_(readState(options.state)) {}

  int run() {
    if (!options_.manifest.empty()) {
      Outcome<std::string> text = doctor::fingerprint::readManifest(options_.manifest);
      if (!text.ok()) return leave(kExitUsage, "%s: %s", kWatch, text.error().c_str());
      manifest_ = std::move(*text);
    }
    if (rooted_ == nullptr && !kernel_.readable())
      say("%s: note: the kernel's log cannot be read (%s): as root it is watched too", kWatch, "/dev/kmsg");
    for (int look = 1; g_asked_to_end == 0; ++look) {
      if (const auto taken = take(std::time(nullptr)); !taken.ok())
        return leave(kExitFailed, "%s: %s", kWatch, taken.error().c_str());
      if (look == options_.looks) break;
      const timespec pause = {options_.every_ms / 1000, options_.every_ms % 1000 * 1000000L};
      (void)nanosleep(&pause, nullptr);  // a signal ends it
    }
    const auto saved = save(std::time(nullptr));
    return saved.ok() ? kExitOk : leave(kExitFailed, "%s: %s", kWatch, saved.error().c_str());
  }

 private:
  Outcome<void> take(int64_t now) {
    const bool counters = now - counted_ >= kCountersSeconds || now < counted_;
    if (counters) counted_ = now;
    doctor::Look look = doctor::lookAt(tree_, now, counters);
    if (rooted_ == nullptr) look.kernel = kernel_.next();
    if (!options_.manifest.empty() && (now - compared_ >= kManifestSeconds || now < compared_)) {
      compared_ = now;
      look.manifest = manifestDifferences(manifest_, options_.manifest, tree_, rooted_ == nullptr);
    }
    const std::vector<doctor::WatchEvent> events = doctor::takeLook(state_, look);
    std::string lines;
    for (const doctor::WatchEvent& event : events) {
      const std::string json = doctor::watchEventJson(event, host_);
      lines += json;
      std::fputs(options_.json ? json.c_str() : (doctor::watchEventText(event) + "\n").c_str(), stdout);
    }
    (void)std::fflush(stdout);
    if (!lines.empty()) {
      if (auto added = addEvents(options_.state, lines); !added.ok()) return added;
    }
    return !events.empty() || now - saved_ >= kSaveSeconds || now < saved_ ? save(now) : Outcome<void>();
  }

  Outcome<void> save(int64_t now) {
    saved_ = now;
    if (auto written = replaceFile(stateFile(options_.state), doctor::watchStateJson(state_), 0644);
        !written.ok())
      return written;
    if (options_.textfile.empty()) return {};
    return replaceFile(options_.textfile, doctor::watchPrometheus(state_, now), 0644);
  }

  const WatchOptions& options_;
  const std::unique_ptr<sysfs::FileTree> rooted_;
  const sysfs::FileTree& tree_;
  doctor::WatchState state_;
  KernelLog kernel_;
  std::string manifest_;  // its text
  const std::string host_ = hostName();
  int64_t counted_ = 0;
  int64_t compared_ = 0;
  int64_t saved_ = 0;
};

enum class Form { kText, kSlurm, kNpd, kNpdWarning, kPrometheus, kNvsentinel, kJson };
constexpr std::array<Choice<Form>, 7> kForms = {{{"text", Form::kText},
                                                 {"slurm", Form::kSlurm},
                                                 {"npd", Form::kNpd},
                                                 {"npd-warning", Form::kNpdWarning},
                                                 {"prometheus", Form::kPrometheus},
                                                 {"nvsentinel", Form::kNvsentinel},
                                                 {"json", Form::kJson}}};

int printText(const std::string& text, int status) {
  return writeOutput(kHealth, "", text) == kExitOk ? status : kExitFailed;
}

// Each program has its own exit statuses: node-problem-detector takes 1 for a problem and all above for "not
// known".
int printHealth(Form form, const doctor::WatchState& state, int64_t now) {
  using enum doctor::Severity;
  const doctor::Health health = doctor::healthOf(state, now);
  const bool errors = health.worst == kError, warnings = health.worst == kWarning;
  switch (form) {
    case Form::kText:
      return printText(health.text + "\n", errors || !health.known ? 2 : warnings ? 1 : 0);
    case Form::kSlurm:
      return printText((health.watched && errors ? "drain " + health.text
                        : health.known           ? "fine"
                                                 : "unknown " + health.text) +
                           "\n",
                       kExitOk);
    case Form::kNpd:
      return printText(health.text + "\n", health.watched && errors ? 1 : !health.known ? 3 : 0);
    case Form::kNpdWarning:
      return printText(health.text + "\n", health.watched && health.worst ? 1 : !health.known ? 3 : 0);
    case Form::kPrometheus:
      return printText(doctor::watchPrometheus(state, now), kExitOk);
    case Form::kNvsentinel:
      return printText(doctor::watchNvsentinel(state, hostName()), kExitOk);
    case Form::kJson:
      return printText(doctor::watchStateJson(state), kExitOk);
  }
  return kExitFailed;
}

}  // namespace

int doctorWatchCommand(Args args) {
  WatchOptions options;
  int status = kExitOk;
  const auto arguments = parseOrLeave(kWatch, watchOptions(options), args, kWatchHelp, 0, &status);
  if (!arguments) return status;
  if (options.list) return writeOutput(kWatch, "", doctor::watchCatalogueJson());
  (void)mkdir(options.state.c_str(), 0755);  // an error shows when the state is written
  struct sigaction end = {};
  end.sa_handler = [](int) { g_asked_to_end = 1; };
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) (void)sigaction(signal, &end, nullptr);
  const Outcome<Descriptor> lock = lockState(options.state);
  if (!lock.ok()) return leave(kExitFailed, "%s: %s", kWatch, lock.error().c_str());
  return Watcher(options).run();
}

int doctorHealthCommand(Args args) {
  std::string folder = kStateFolder;
  int status = kExitOk;
  const auto arguments =
      parseOrLeave(kHealth,
                   {textOption(0, "state", "DIR", &folder,
                               "where the watch keeps what it knows (default /var/lib/railwise)")},
                   args, kHealthHelp, 1, &status);
  if (!arguments) return status;
  Form form = Form::kText;
  if (!arguments->positional.empty() && !choose(kForms, arguments->positional[0], &form))
    return leave(kExitUsage, "%s: '%s' is no form (%s)", kHealth, arguments->positional[0].c_str(),
                 joined(namesOf(kForms)).c_str());
  const Outcome<std::string> text = wholeFile(stateFile(folder));
  Outcome<doctor::WatchState> state = text.ok() ? doctor::readWatchState(*text) : doctor::WatchState();
  if (!text.ok())
    say("%s: %s: %s; start railwise doctor --watch", kHealth, stateFile(folder).c_str(),
        text.error().c_str());
  if (!state.ok()) {
    say("%s: %s %s", kHealth, stateFile(folder).c_str(), state.error().c_str());
    state = doctor::WatchState();
  }
  return printHealth(form, *state, std::time(nullptr));
}

}  // namespace railwise::cli
