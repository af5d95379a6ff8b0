#include "benchmarks/bench/callgrind.h"

#include <unistd.h>

#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string_view>

#include "benchmarks/bench/load/worker.h"
#include "cli/options/message.h"
#include "cli/plugin/plugin_loader.h"
#include "perf/measuring/measuring.h"

namespace railwise::cli {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kWarmUp = 512;
constexpr uint64_t kCounted = 2048;

std::string findValgrind() {
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string file = folder + "/valgrind";
    if (access(file.c_str(), X_OK) == 0) return file;
  }
  return "";
}

// The file that callgrind writes. It is a temporary file, unless the user wants to keep it.
class ProfileFile {
 public:
  explicit ProfileFile(const std::string& keep)
      : kept_(!keep.empty()),
        path_(kept_ ? fs::absolute(keep).string()
                    : (fs::temp_directory_path() / "railwise-bench-XXXXXX").string()) {
    const int fd = kept_ ? -1 : mkstemp(path_.data());
    if (fd >= 0) ::close(fd);
  }
  ~ProfileFile() {
    if (!kept_) ::unlink(path_.c_str());
  }
  ProfileFile(const ProfileFile&) = delete;
  ProfileFile& operator=(const ProfileFile&) = delete;

  const std::string& path() const { return path_; }
  std::string text() const {
    std::ostringstream text;
    text << std::ifstream(path_).rdbuf();
    return text.str();
  }

 private:
  const bool kept_;
  std::string path_;
};

// Reads an object name: "(3) /lib/x.so" names object 3, and a later "(3)" refers to it.
std::string objectName(std::string_view value, std::map<std::string, std::string, std::less<>>& names) {
  const std::size_t end = value.find(')');
  if (!value.starts_with('(') || end == std::string_view::npos) return std::string(value);
  const std::string id(value.substr(0, end + 1));
  if (end + 2 < value.size()) names[id] = value.substr(end + 2);
  return names[id];
}

bool sameFile(const std::string& a, const std::string& b) {
  std::error_code error;
  return fs::equivalent(a, b, error) && !error;
}

}  // namespace

std::optional<std::vector<ObjectCost>> readCallgrind(const std::string& text) {
  std::map<std::string, std::string, std::less<>> names;
  std::map<std::string, ObjectCost> costs;
  std::string object;
  std::string callee;    // called by the next line; empty: a function of the same object file
  bool calling = false;  // the next line has the cost of a call
  bool profile = false;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    profile = profile || line.starts_with("events: Ir");
    if (line.starts_with("ob=")) {
      object = objectName(std::string_view(line).substr(3), names);
    } else if (line.starts_with("cob=")) {
      callee = objectName(std::string_view(line).substr(4), names);
    } else if (line.starts_with("calls=")) {
      calling = true;
    } else if (!line.empty() &&
               (std::isdigit(static_cast<unsigned char>(line[0])) != 0 || line.find_first_of("+-*") == 0)) {
      const std::size_t space = line.find(' ');
      const uint64_t cost = space == std::string::npos ? 0 : std::strtoull(line.c_str() + space, nullptr, 10);
      ObjectCost& from = costs[object];
      if (!calling) {
        from.instructions += cost;
      } else if (!callee.empty() && callee != object) {
        from.calls[callee] += cost;
      }
      calling = false;
      callee.clear();
    }
  }
  if (!profile) return std::nullopt;
  std::vector<ObjectCost> all;
  for (auto& [name, cost] : costs) {
    cost.object = name;
    all.push_back(cost);
  }
  return all;
}

// Counts in `function` of the worker.
static Outcome<Instructions> countIn(const char* function, BenchTask task, BenchPlace place,
                                     const std::string& keep) {
  const std::string valgrind = findValgrind();
  if (valgrind.empty())
    return Error{"--instructions counts with valgrind, which is not in PATH (package: valgrind)"};
  const ProfileFile profile(keep);
  place.under = {valgrind,
                 "--tool=callgrind",
                 "-q",
                 "--log-file=/dev/null",
                 std::string("--toggle-collect=") + function,
                 "--callgrind-out-file=" + profile.path()};
  task.ends = BenchEnds::kOneThread;
  const uint64_t counted = roundUp(kCounted, task.shape.unit());
  BenchChild child(task, place);
  std::optional<std::string> file;
  if (child.start() && child.run(roundUp(kWarmUp, task.shape.unit()))) file = child.count(counted);
  if (!file) return Error{"under valgrind: " + child.error()};
  child.end();  // callgrind writes the profile when the process exits
  const auto costs = readCallgrind(profile.text());
  if (!costs || costs->empty())
    return Error{
        "valgrind counted nothing: it needs the symbols of this command (package railwise-dbgsym, or a build "
        "tree)"};
  const auto isDevice = [](const std::string& object) {
    const std::string name = fs::path(object).filename().string();
    return name.starts_with("libibverbs") || name.starts_with("librailwise-device");
  };
  const auto isRest = [&](const std::string& object) {
    return !isDevice(object) && !sameFile(object, *file) && !sameFile(object, executablePath());
  };
  Instructions counts = {};
  const auto add = [&](double& sum, uint64_t instructions) {
    sum += static_cast<double>(instructions) / static_cast<double>(counted);
  };
  for (const ObjectCost& cost : *costs) {
    const bool plugin = sameFile(cost.object, *file);
    double& sum = plugin                                    ? counts.plugin
                  : isDevice(cost.object)                   ? counts.device
                  : sameFile(cost.object, executablePath()) ? counts.bench
                                                            : counts.rest;
    add(sum, cost.instructions);
    if (!plugin) continue;
    for (const auto& [object, instructions] : cost.calls) {
      if (!isRest(object)) continue;
      add(counts.plugin, instructions);
      counts.rest -= static_cast<double>(instructions) / static_cast<double>(counted);
    }
  }
  return counts;
}

Outcome<Instructions> countInstructions(const BenchTask& task, const BenchPlace& place,
                                        const std::string& keep) {
  auto all = countIn(kCountedFunction, task, place, keep);
  if (!all.ok() || !isOneSided(task.shape.pattern)) return all;
  const auto targets = countIn(kTargetsFunction, task, place, "");
  if (!targets.ok()) return targets;
  all->targets = targets->plugin;
  return all;
}

}  // namespace railwise::cli
