#include "gpu/vendor.h"

#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstring>
#include <optional>

#include "base/process.h"
#include "base/text/printable.h"
#include "base/text/text_layout.h"
#include "gpu/json.h"

namespace railwise::gpu {
namespace {

// sanitize() (gpu/json.h): what a vendor's library, a recording or a file may say of GPUs, and cannot be.
// Beyond it a figure is a mistake: NVLink 5 has 900 GB/s over all links of a GPU.
constexpr double kMaxGbPerSecond = 100'000;
constexpr int kMaxLinkWidth = 1024;
constexpr std::size_t kMaxRemarks = 64;
constexpr std::size_t kMaxText = 4096;
constexpr std::size_t kMaxAddress = 16;  // "00000000:0f:00.0"
constexpr const char* kArchitectureCharacters =
    "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.:+-_";

// Texts go to terminals and into files: no control characters, nothing that is not UTF-8.
void cleanText(std::string& text) {
  text.erase(text.find_last_not_of(" \t\r\n") + 1);
  text = withoutControls(cleanUtf8(text.substr(0, kMaxText)));
}

// Addresses and architectures get into XML attributes and are compared with names in /sys.
bool hasOnly(const std::string& text, const char* characters) {
  return text.find_first_not_of(characters) == std::string::npos;
}

// Removes what is no PCI address.
void cleanAddress(std::string& busid, const std::string& of, std::vector<std::string>& wrong) {
  if (hasOnly(busid, "0123456789abcdef:.") && busid.size() <= kMaxAddress) return;
  wrong.push_back("'" + busid + "' is said to be the PCI address of " + of);
  busid.clear();
}

void cleanDevice(Device& device, int position, int devices, std::vector<std::string>& wrong) {
  for (std::string* text :
       {&device.model, &device.architecture, &device.busid, &device.uuid, &device.driver, &device.firmware,
        &device.partition, &device.fabric_cluster, &device.fabric_state, &device.health.throttle_reason})
    cleanText(*text);
  const std::string gpu = "GPU " + std::to_string(position);
  cleanAddress(device.busid, gpu, wrong);
  if (!hasOnly(device.architecture, kArchitectureCharacters)) {
    wrong.push_back("'" + device.architecture + "' is said to be the architecture of " + gpu);
    device.architecture.clear();
  }
  device.index = position;
  device.rank = std::max(device.rank, -1);
  if (device.parent < -1 || device.parent >= devices || device.parent == position) device.parent = -1;
  if (!std::isfinite(device.share) || device.share <= 0 || device.share > 1) device.share = 1;
  if (device.numa < -1 || device.numa > 65535) device.numa = -1;
  // No GPU has a PiB.
  if (device.memory_bytes > uint64_t{1} << 50) {
    wrong.push_back(gpu + " is said to have " + std::to_string(device.memory_bytes) + " bytes of memory");
    device.memory_bytes = 0;
  }
  if (device.memory_used_bytes.value_or(0) > device.memory_bytes) device.memory_used_bytes.reset();
  if (const int percent = device.utilisation_percent.value_or(0); percent < 0 || percent > 100)
    device.utilisation_percent.reset();
  if (device.processes.value_or(0) < 0) device.processes.reset();
}

// A library that writes without end is not read without end. 256 GPUs, each linked to each, need 12 MB.
constexpr std::size_t kMaxAnswer = 64u << 20;
// Ends an answer. The library may have written over the child's memory or have started a process that holds
// the pipe open, so the end of the pipe does not tell whether the answer is whole.
constexpr char kAnswerEnd = '\0';
// How long the child of a library that has crashed may take to disappear.
constexpr Clock::duration kCrashTime = std::chrono::milliseconds(200);

// The child's whole life.
int askInChild(const GpuVendor& vendor, std::string& answer) {
  // A crash shall be seen as a crash, whatever handlers the parent has, and leave no core file.
  for (const int number : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTERM}) std::signal(number, SIG_DFL);
  std::signal(SIGPIPE, SIG_IGN);
  const rlimit no_core = {0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  GpuTopology topology;
  if (Outcome<void> read = vendor.read(topology); !read.ok()) topology.remarks.push_back(read.error());
  answer = jsonOf(topology) + kAnswerEnd;
  return 0;
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
  Asked(const GpuVendor& vendor, Process process) : vendor_(&vendor), process_(std::move(process)) {}

  static Outcome<Asked> start(const GpuVendor& vendor) {
    ProcessPlan plan;
    plan.body = [&](std::string& answer) { return askInChild(vendor, answer); };
    // Libraries print. What they say would stand in the middle of the command's output.
    plan.input = plan.output = plan.error = kStreamNothing;
    plan.most_output = kMaxAnswer;
    auto process = Process::start(plan);
    if (!process.ok()) return process.failure();
    return Asked(vendor, std::move(*process));
  }

  Process& process() { return process_; }
  // Nothing more needs to be read.
  bool done() const { return !process_.outputOpen() || whole() || process_.output().size() > kMaxAnswer; }

  Told finish(Clock::duration limit) {
    Told told;
    told.advice = "Try " + vendor_->program();
    const std::string& bytes = process_.output();
    // A child that has crashed is about to end by itself: its status then tells how.
    if (done() && bytes.empty()) process_.wait(Deadline::after(kCrashTime));
    const std::optional<ProcessEnd>& end = process_.end();
    if (!done()) {
      silent(told, limit, end.has_value());
      return told;
    }
    Outcome<GpuTopology> answer = Error{"its answer is cut off"};
    if (whole()) answer = parseJson(std::string_view(bytes).substr(0, bytes.size() - 1));
    if (answer.ok()) told.topology = std::move(*answer);
    else told.failure = failed(end, answer.error());
    sanitize(told.topology, vendor_->name());
    return told;
  }

 private:
  // The end of the answer has come.
  bool whole() const { return process_.output().ends_with(kAnswerEnd); }

  void silent(Told& told, Clock::duration limit, bool ended) const {
    const double seconds = std::chrono::duration<double>(limit).count();
    told.failure = vendor_->name() + formatText(" did not answer within %.3g s", seconds);
    told.advice += "; when that hangs too, the kernel log (dmesg) tells what the driver waits for";
    if (!ended)
      told.advice += ". Process " + std::to_string(process_.pid()) +
                     ", which asked, hangs in the driver and cannot be ended";
  }

  std::string failed(const std::optional<ProcessEnd>& end, const std::string& error) const {
    const bool empty = process_.output().empty();
    if (empty && end && end->signalled) {
      const char* signal = sigabbrev_np(end->code);
      return vendor_->name() + " crashed (signal " +
             (signal != nullptr ? "SIG" + std::string(signal) : std::to_string(end->code)) + ")";
    }
    if (empty)
      return vendor_->name() + " ended the process that asked it" +
             (end ? " (status " + std::to_string(end->code) + ")" : "");
    return vendor_->name() + ": the answer of the process that asked it cannot be read (" + error + ")";
  }

  const GpuVendor* vendor_;
  Process process_;
};

void waitForAnswers(std::vector<Asked>& asked, const Deadline& deadline) {
  for (;;) {
    std::vector<Process*> waiting;
    for (Asked& one : asked)
      if (!one.done()) waiting.push_back(&one.process());
    if (waiting.empty() || deadline.passed()) return;
    Process::receiveAny(waiting, deadline);
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

Outcome<std::unique_ptr<DynamicLibrary>> openVendorLibrary(const std::string& setting,
                                                           const std::vector<const char*>& names) {
  std::unique_ptr<DynamicLibrary> opened;
  std::string problem;
  const auto tryOpen = [&](const char* name) {
    Outcome<DynamicLibrary> library = DynamicLibrary::open({name}, DynamicLibrary::Unload::kNever);
    if (library.ok()) {
      opened = std::make_unique<DynamicLibrary>(std::move(*library));
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
  if (opened == nullptr && !problem.empty()) return Error{std::move(problem)};
  return opened;
}

namespace {

class LibraryVendor final : public GpuVendor {
 public:
  explicit LibraryVendor(VendorLibrary library) : its_(std::move(library)) {}

  Vendor vendor() const override { return its_.vendor; }
  std::string name() const override {
    return std::string(topology::gpuVendorName(its_.vendor)) + "'s library (" +
           (its_.path.empty() ? its_.library : its_.path) + ")";
  }
  std::string program() const override { return its_.program; }
  Outcome<void> read(GpuTopology& topology) const override {
    const auto opened = openVendorLibrary(its_.path, its_.names);
    if (!opened.ok()) return Error{name() + " cannot be loaded: " + opened.error()};
    return *opened == nullptr ? Outcome<void>() : its_.read(**opened, name(), !its_.path.empty(), topology);
  }

 private:
  const VendorLibrary its_;
};

}  // namespace

std::unique_ptr<GpuVendor> makeVendor(VendorLibrary library) {
  return std::make_unique<LibraryVendor>(std::move(library));
}

std::string bufferText(const char* buffer, std::size_t bytes, const std::string& what,
                       GpuTopology& topology) {
  const std::size_t length = strnlen(buffer, bytes);
  if (length < bytes) return std::string(buffer, length);
  topology.remarks.push_back(what + " has no end: it is left out");
  return "";
}

void sanitize(GpuTopology& topology, const std::string& name) {
  std::vector<std::string> wrong;
  if (topology.gpus.size() > kMaxDevices) {
    wrong.push_back("there are said to be " + std::to_string(topology.gpus.size()) + " GPUs");
    topology.gpus.resize(kMaxDevices);
  }
  const int devices = static_cast<int>(topology.gpus.size());
  for (int i = 0; i < devices; ++i) cleanDevice(topology.gpus[i], i, devices, wrong);

  std::erase_if(topology.links, [&](Link& link) {
    cleanText(link.to_busid);
    cleanAddress(link.to_busid, "a link's other end", wrong);
    const bool there = link.from >= 0 && link.from < devices && link.to >= -1 && link.to < devices;
    if (!there || link.from == link.to) {
      wrong.push_back("a link goes from GPU " + std::to_string(link.from) + " to GPU " +
                      std::to_string(link.to) + (there ? " itself" : ", and there is no such GPU"));
      return true;
    }
    if (link.width < 0 || link.width > kMaxLinkWidth || !std::isfinite(link.gb_per_s) || link.gb_per_s < 0 ||
        link.gb_per_s > kMaxGbPerSecond) {
      wrong.push_back("a link of GPU " + std::to_string(link.from) + " is said to be " +
                      std::to_string(link.width) + " wide with " + std::to_string(link.gb_per_s) + " GB/s");
      return true;
    }
    return false;
  });
  std::erase_if(topology.peers, [&](PeerStatus& peer) {
    cleanText(peer.reason);
    return peer.from < 0 || peer.from >= devices || peer.to < 0 || peer.to >= devices || peer.from == peer.to;
  });
  std::erase_if(topology.nics, [&](topology::GpuNic& nic) {
    cleanText(nic.name);
    return nic.gpu < 0 || nic.gpu >= devices || !std::isfinite(nic.gb_per_s);
  });
  for (std::string& remark : topology.remarks) cleanText(remark);
  for (const std::string& text : wrong)
    topology.remarks.push_back(name + " gave a wrong answer, which is left out here: " + text);
  if (topology.remarks.size() > kMaxRemarks) {
    const std::size_t more = topology.remarks.size() - kMaxRemarks;
    topology.remarks.resize(kMaxRemarks);
    topology.remarks.push_back(name + ": and " + std::to_string(more) + " remarks more");
  }
}

}  // namespace railwise::gpu
