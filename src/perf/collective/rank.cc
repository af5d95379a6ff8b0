#include "perf/collective/rank.h"

#include <signal.h>
#include <unistd.h>

#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>

#include "cli/options/message.h"
#include "cli/plugin/device_choice.h"
#include "perf/collective/measure.h"
#include "perf/collective/record.h"
#include "perf/collective/report.h"
#include "perf/job/activity.h"
#include "perf/job/bootstrap.h"
#include "perf/measuring/machine_use.h"

namespace railwise::cli {
namespace {

// How long rank 0 waits for the launcher's "quiet". The launcher checks every millisecond.
constexpr auto kQuietLimit = std::chrono::seconds(5);

// ---- The launcher ends a rank by SIGTERM. When the launcher dies, the kernel sends SIGTERM too. ----

volatile sig_atomic_t g_launcher = 0;
char g_launcher_gone[160];

void onTerminate(int) {
  if (getppid() != g_launcher) (void)!write(STDERR_FILENO, g_launcher_gone, std::strlen(g_launcher_gone));
  _exit(kExitFailed);
}

void watchLauncher(const RankIdentity& identity) {
  if (identity.launcher == 0) return;
  g_launcher = identity.launcher;
  std::snprintf(g_launcher_gone, sizeof g_launcher_gone,
                "railwise: rank %d: the launcher (pid %d on this host) is gone: ending\n", identity.rank,
                static_cast<int>(identity.launcher));
  struct sigaction action = {};
  action.sa_handler = onTerminate;
  sigaction(SIGTERM, &action, nullptr);
  // The launcher died before this rank could ask the kernel for the signal.
  if (getppid() != identity.launcher) onTerminate(SIGTERM);
}

// FNV-1a: all ranks compute the same communicator id.
uint64_t communicatorId(const std::string& secret) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : secret) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

class Rank {
 public:
  Rank(const PerfOptions& options, const RankIdentity& identity) : options_(options), identity_(identity) {}

  int run() {
    fallback_ = identity_.launcher != 0 ? identity_.software_fallback : needsSoftwareDevice(options_.plugin);
    if (!openRecord() || !join()) return kExitFailed;
    const Status status = runJob();
    if (!status.ok()) giveUp();
    record_->end(RankEnding::kCompleted, "");
    return exit_status_;
  }

 private:
  bool openRecord() {
    const char* const fd = std::getenv(kRecordVariable);
    if (fd == nullptr && !options_.faults) return true;
    auto run = RunRecord::attach(parseInt(fd != nullptr ? fd : "", 0, INT_MAX).value_or(-1));
    if (!run.ok()) {
      say("cannot map the launcher's record: %s", std::strerror(run.status().sys_errno));
      return false;
    }
    run_record_ = std::move(*run);
    record_ = &run_record_->rank(identity_.rank);
    return true;
  }

  void recordFailure(const std::string& text) {
    const int result = failure_.result();
    record_->result = result;
    if (result != 0) return record_->end(RankEnding::kPluginError, failure_.text());
    if (text.find(kNoProgress) != std::string::npos) return record_->end(RankEnding::kTimeLimit, text);
    record_->end(failure_.text().empty() ? RankEnding::kTold : RankEnding::kOther, text);
  }

  bool join() {
    BootstrapOptions bootstrap;
    bootstrap.rank = identity_.rank;
    bootstrap.size = identity_.size;
    bootstrap.secret = identity_.secret;
    bootstrap.agreement = agreementText(options_);
    bootstrap.timeout = std::chrono::seconds(options_.timeout_s);
    bootstrap.listener = Socket(identity_.listen_fd);
    bootstrap.progress = [this] { return activity_.ticks(); };
    bootstrap.doing = [this] { return activity_.text(); };
    bootstrap.on_failure = [this](const std::string& text) {
      say("%s", text.c_str());
      recordFailure(text);
      _exit(kExitFailed);  // a plugin call of another thread may never return
    };
    if (identity_.size > 1) {
      auto address = resolveAddress(identity_.address);
      if (!address.ok()) return joinFailed(address.error());
      bootstrap.address = *address;
    }
    auto joined = Bootstrap::join(std::move(bootstrap));
    if (!joined.ok()) return joinFailed(joined.error());
    bootstrap_ = std::move(*joined);
    return true;
  }

  bool joinFailed(const std::string& error) {
    const char* hint = identity_.launcher == 0 ? " (rank and size are those of " : "";
    say("cannot join the job: %s%s%s%s", error.c_str(), hint, *hint != '\0' ? identity_.source.c_str() : "",
        *hint != '\0' ? "; --ranks N would start the ranks here)" : "");
    return false;
  }

  // Reports the failure to the bootstrap. Its monitor thread ends the process when it knows which rank caused
  // the failure.
  [[noreturn]] void giveUp() {
    // At once, because the launcher judges by the paths that are left at this moment.
    record_->result = failure_.result();
    bootstrap_->fail(failure_.text().empty() ? "a message of the bootstrap network makes no sense"
                                             : failure_.text());
    std::this_thread::sleep_for(std::chrono::seconds(10));
    say("%s", failure_.text().c_str());
    recordFailure(failure_.text());
    _exit(kExitFailed);
  }

  Status fail(std::string text, int result = 0) {
    failure_.set(std::move(text), result);
    return {Code::kRemote};
  }

  Status runJob() {
    RAILWISE_TRY(agreeOnDevice());
    RAILWISE_TRY(startNet());
    RAILWISE_TRY(introduce());
    service_ = std::make_unique<Worker>("rw-service");
    progress_ = std::make_unique<Worker>("rw-progress");
    net_ = std::make_unique<NetContext>(*plugin_->api, failure_, bootstrap_->rank());
    LinkPlan plan = linkPlan(options_, bootstrap_->rank(), bootstrap_->size());
    plan.devices = devices_;
    plan.first_device = rank_on_host_;
    net_->count_bytes = &record_->received;
    links_ = std::make_unique<Links>(*net_, activity_, plan, bootstrap_->size());
    RAILWISE_TRY(connect());
    RAILWISE_TRY(measureAll());
    RAILWISE_TRY(closeAll());
    activity_.setPhase("waiting for the other ranks to finish");
    RAILWISE_TRY(bootstrap_->leave());
    return finish();
  }

  Status closeAll() {
    record_->phase = RankPhase::kMeasured;
    if (options_.faults && bootstrap_->rank() == 0) waitForQuiet();
    activity_.setPhase("closing the connections");
    RAILWISE_TRY(bootstrap_->barrier());
    activity_.setDetail(nullptr);
    RAILWISE_TRY(service_->run([this] { return links_->close(); }));
    service_.reset();
    progress_.reset();
    activity_.setPhase("in finalize");
    if (const ncclResult_t result = plugin_->api->finalize(); result != ncclSuccess)
      return fail("finalize failed: " + resultText(result), result);
    plugin_.reset();
    return Status::success();
  }

  // Rank 0 waits here because faults must happen while data flows. The other ranks wait for rank 0.
  void waitForQuiet() {
    const Deadline deadline = Deadline::after(kQuietLimit);
    while (!run_record_->quiet() && !deadline.passed())
      std::this_thread::sleep_for(std::chrono::microseconds(200));
  }

  // If one rank has no RDMA device, all ranks use the software device, because software and real devices
  // cannot communicate.
  Status agreeOnDevice() {
    auto all = bootstrap_->allGather(ByteWriter().u32(fallback_ ? 1 : 0).take());
    if (!all.ok()) return all.status();
    for (const Bytes& answer : *all) fallback_ = fallback_ || ByteReader(answer).u32() != 0;
    applyDevice(options_.plugin, fallback_);
    return Status::success();
  }

  Status startNet() {
    activity_.setPhase("in the plugin's init");
    auto plugin = loadPlugin(options_.plugin);
    if (!plugin.ok()) return fail(plugin.error());
    plugin_ = std::make_unique<LoadedPlugin>(std::move(*plugin));
    auto devices = startPlugin(*plugin_->api, communicatorId(identity_.secret));
    if (!devices.ok()) return fail(devices.error());
    devices_.resize(static_cast<std::size_t>(*devices));
    std::iota(devices_.begin(), devices_.end(), 0);
    return options_.fuse && devices_.size() > 1 ? fuseDevices() : Status::success();
  }

  Status fuseDevices() {
    int fused = 0;
    const ncclResult_t result = plugin_->api->makeVDevice(devices_, &fused);
    if (result != ncclSuccess)
      return fail(textOf("makeVDevice of %zu devices (--fuse) failed: ", devices_.size()) +
                  resultText(result) +
                  "; devices without a place in the PCI tree: RAILWISE_FUSE_PLACELESS=1");
    devices_ = {fused};
    return Status::success();
  }

  Result<std::string> deviceNames() {
    std::string names;
    const int count = static_cast<int>(devices_.size());
    for (int channel = 0; channel < std::min(options_.channels, count); ++channel) {
      const int device = devices_[static_cast<std::size_t>((rank_on_host_ + channel) % count)];
      NetProperties properties;
      const ncclResult_t result = plugin_->api->getProperties(device, &properties);
      if (result != ncclSuccess)
        return fail(textOf("getProperties(%d) failed: ", device) + resultText(result));
      if ((properties.ptr_support & NCCL_PTR_HOST) == 0)
        return fail("device " + properties.name + " does not take host memory");
      names += (names.empty() ? "" : ",") + properties.name;
    }
    return names;
  }

  // Exchanges which ranks there are, with which plugin and devices.
  Status introduce() {
    const int rank = bootstrap_->rank();
    for (int i = 0; i < rank; ++i)
      rank_on_host_ += bootstrap_->peer(i).host == bootstrap_->peer(rank).host ? 1 : 0;
    auto names = deviceNames();
    if (!names.ok()) return names.status();
    const std::string plugin = textOf("%s v%d", plugin_->api->name(), plugin_->api->version());
    auto all = bootstrap_->allGather(ByteWriter().text(plugin).text(*names).take());
    if (!all.ok()) return all.status();
    for (int i = 0; i < bootstrap_->size(); ++i) {
      ByteReader reader((*all)[static_cast<std::size_t>(i)]);
      const Peer& peer = bootstrap_->peer(i);
      const std::string other = reader.text();
      if (other != plugin) return fail(peer.text() + " uses plugin " + other + ", this rank uses " + plugin);
      report_.rank_lines.push_back({i, static_cast<int>(peer.pid), peer.host, reader.text()});
    }
    report_.options = options_;
    report_.ranks = bootstrap_->size();
    report_.plugin_path = plugin_->path;
    report_.plugin_name = plugin_->api->name();
    report_.api = plugin_->api->version();
    report_.software_fallback = fallback_;
    print(headerText(report_));
    keepReport();
    return Status::success();
  }

  Status connect() {
    activity_.setPhase("listening");
    RAILWISE_TRY(service_->run([this] { return links_->listen(); }));
    activity_.setPhase("exchanging the handles");
    auto handles = bootstrap_->exchange(links_->handles());
    if (!handles.ok()) return handles.status();
    activity_.setPhase("connecting");
    activity_.setDetail([this] { return links_->describe(); });
    return service_->run([&] { return links_->connect(*handles); });
  }

  // With --duration, measures all sizes again until the time on rank 0 is over. With --faults, until the
  // launcher sets "over".
  Status measureAll() {
    record_->phase = RankPhase::kTraffic;
    // A fault campaign runs beside other programs.
    const bool cores_are_few = options_.faults || ranksOnHost() > usableCpus();
    auto measure =
        Measure::create(options_, *bootstrap_, *links_, *progress_, activity_, *record_, cores_are_few);
    if (!measure.ok()) return fail(measure.error());
    const Deadline end = Deadline::after(std::chrono::seconds(options_.duration_s));
    const MachineUse machine;
    const double cpu_seconds = ownCpuSeconds();
    for (;;) {
      RAILWISE_TRY(measureSizes(**measure));
      if (!options_.faults && options_.duration_s == 0)
        return lookAround(machine, ownCpuSeconds() - cpu_seconds, (*measure)->naps());
      const bool scheduled = options_.faults && !run_record_->over();
      auto over = bootstrap_->allGather(ByteWriter().u32(end.passed() && !scheduled ? 1 : 0).take());
      if (!over.ok()) return over.status();
      if (ByteReader(over->front()).u32() == 0) continue;
      if (options_.faults) return Status::success();
      return lookAround(machine, ownCpuSeconds() - cpu_seconds, (*measure)->naps());
    }
  }

  int ranksOnHost() const {
    int ranks = 0;
    for (int i = 0; i < bootstrap_->size(); ++i)
      ranks += bootstrap_->peer(i).host == bootstrap_->peer(bootstrap_->rank()).host ? 1 : 0;
    return ranks;
  }

  // Collects, in rank 0's report, what other load the measurements shared the machine with.
  Status lookAround(const MachineUse& machine, double cpu_seconds, uint64_t naps) {
    auto all =
        bootstrap_->allGather(ByteWriter().u64(static_cast<uint64_t>(cpu_seconds * 1e9)).u64(naps).take());
    if (!all.ok()) return all.status();
    Surroundings its;
    double on_host = 0;
    for (int i = 0; i < bootstrap_->size(); ++i) {
      ByteReader reader((*all)[static_cast<std::size_t>(i)]);
      const double seconds = static_cast<double>(reader.u64()) / 1e9;
      if (bootstrap_->peer(i).host == bootstrap_->peer(0).host) on_host += seconds;
      its.naps += reader.u64();
    }
    its.cores = usableCpus();
    its.ranks_on_host = ranksOnHost();
    its.others = machine.since(on_host);
    report_.surroundings = its;
    return Status::success();
  }

  Status measureSizes(Measure& measure) {
    const auto sizes = perfSizes(options_);
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      if (bootstrap_->rank() == 0)
        showProgress(textOf("%s: size %llu (%zu of %zu)", collectiveName(options_.collective),
                            static_cast<unsigned long long>(sizes[i]), i + 1, sizes.size()));
      auto row = measure.row(sizes[i]);
      if (!row.ok()) return row.status();
      report_.rows.push_back(*row);
      keepReport();
      if (bootstrap_->rank() == 0) clearProgress();
      print(rowText(report_, *row));
    }
    return Status::success();
  }

  void keepReport() {
    if (run_record_ != nullptr && bootstrap_->rank() == 0) run_record_->keep(report_);
  }

  bool tableOnStdout() const { return !options_.json || !options_.json_file.empty(); }

  void print(const std::string& text) const {
    if (bootstrap_->rank() != 0 || !tableOnStdout()) return;
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
  }

  Status finish() {
    exit_status_ = report_.wrong() == 0 ? kExitOk : kExitFailed;
    print(footerText(report_));
    // With --faults the launcher writes the document.
    const bool ours = bootstrap_->rank() == 0 && options_.json && !options_.faults;
    if (ours && !writeDocument(options_.json_file, jsonText(report_))) exit_status_ = kExitFailed;
    return Status::success();
  }

  const PerfOptions& options_;
  const RankIdentity& identity_;
  Activity activity_;
  FailureNote failure_;
  RankRecord own_record_;
  RankRecord* record_ = &own_record_;  // or a record in the launcher's memory
  std::unique_ptr<RunRecord> run_record_;
  bool fallback_ = false;
  std::vector<int> devices_;  // the devices in use
  int rank_on_host_ = 0;
  Report report_;
  int exit_status_ = kExitFailed;
  std::unique_ptr<LoadedPlugin> plugin_;
  std::unique_ptr<NetContext> net_;
  std::unique_ptr<Links> links_;
  std::unique_ptr<Worker> service_;
  std::unique_ptr<Worker> progress_;
  std::unique_ptr<Bootstrap> bootstrap_;  // last, because its monitor thread uses activity_
};

}  // namespace

int runRank(const PerfOptions& options, const RankIdentity& identity) {
  setMessagePrefix(textOf("rank %d: ", identity.rank));
  watchLauncher(identity);
  return Rank(options, identity).run();
}

}  // namespace railwise::cli
