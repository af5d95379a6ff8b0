// plugin_random_transfers: random messages through the built plugin, over all versions of the API, links,
// rails and modes; every byte and every size checked. Exit status 0 when all was right; what was wrong is
// printed with the command that shows it again.
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "plugin/random_transfers/run_cell.h"
#include "plugin/test_device.h"

namespace railwise::test {
namespace {

struct Settings {
  uint64_t messages = 2000;
  uint64_t seed = 1;
  uint64_t jobs = 1;
  uint64_t per_cell = 150;        // at least: fewer messages are not worth a process and its connections
  uint64_t at_most = UINT64_MAX;  // messages of this run
  uint64_t largest = kMaxMessage;
  std::string tally;
  std::string cell;
  uint64_t cell_seed = 0;
};

int usage() {
  std::fputs(
      "plugin_random_transfers [--messages N] [--per-cell N] [--seed N] [--jobs N] [--largest N] [--tally "
      "FILE [--at-most N]]\n"
      "plugin_random_transfers --cell NAME --cell-seed N --messages N [--largest N]\n"
      "  --messages   in total, over the cells of the matrix; the whole matrix from some 420000 on\n"
      "  --per-cell   messages of a cell, at least: 150\n"
      "  --largest    bytes of a message at most: 16777216\n"
      "  --tally      keep what is done in FILE, and go on from there when called again\n"
      "  --at-most    messages of this call\n",
      stderr);
  return 2;
}

bool parse(int argc, char** argv, Settings* settings) {
  const std::map<std::string, uint64_t*> numbers = {
      {"--messages", &settings->messages}, {"--seed", &settings->seed},
      {"--per-cell", &settings->per_cell}, {"--jobs", &settings->jobs},
      {"--at-most", &settings->at_most},   {"--cell-seed", &settings->cell_seed},
      {"--largest", &settings->largest}};
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string key = argv[i];
    if (key == "--tally") {
      settings->tally = argv[i + 1];
    } else if (key == "--cell") {
      settings->cell = argv[i + 1];
    } else {
      const auto found = numbers.find(key);
      char* end = nullptr;
      if (found == numbers.end()) return false;
      *found->second = std::strtoull(argv[i + 1], &end, 10);
      if (end == argv[i + 1] || *end != 0) return false;
    }
  }
  return argc % 2 == 1 && settings->jobs >= 1 && settings->messages >= 1 && settings->per_cell >= 1 &&
         settings->largest >= 1 && settings->largest <= kMaxMessage;
}

std::ostream& operator<<(std::ostream& out, const Counts& c) {
  return out << c.messages << ' ' << c.bytes << ' ' << c.groups << ' ' << c.silent << ' ' << c.flushed << ' '
             << c.shortened;
}
std::istream& operator>>(std::istream& in, Counts& c) {
  return in >> c.messages >> c.bytes >> c.groups >> c.silent >> c.flushed >> c.shortened;
}

void add(Counts& sum, const Counts& more) {
  sum.messages += more.messages;
  sum.bytes += more.bytes;
  sum.groups += more.groups;
  sum.silent += more.silent;
  sum.flushed += more.flushed;
  sum.shortened += more.shortened;
}

// A cell in its own process: the last line that it prints are its counts.
int runOnly(const Settings& settings) {
  const std::optional<Cell> cell = parseCell(settings.cell);
  if (!cell) {
    std::fprintf(stderr, "there is no cell %s\n", settings.cell.c_str());
    return 2;
  }
  Counts counts;
  if (!runCell(*cell, settings.cell_seed, {settings.messages, settings.largest}, counts)) return 1;
  std::ostringstream line;
  line << counts;
  std::printf("%s\n", line.str().c_str());
  return 0;
}

class Driver {
 public:
  explicit Driver(const Settings& settings) : settings_(settings), cells_(balanced(settings.seed)) {
    share_ = std::max(settings.per_cell, (settings.messages + cells_.size() - 1) / cells_.size());
    cells_.resize(std::min<std::size_t>(cells_.size(), (settings.messages + share_ - 1) / share_));
  }

  int run() {
    if (!readTally()) return 2;
    uint64_t begun = 0;
    for (std::size_t i = 0; i < cells_.size() && begun < settings_.at_most && failures_ == 0; ++i) {
      if (done_.count(cellName(cells_[i])) != 0) continue;
      if (running_.size() == settings_.jobs) waitForOne();
      start(i);
      begun += share_;
    }
    while (!running_.empty()) waitForOne();
    print();
    return failures_ == 0 ? 0 : 1;
  }

 private:
  struct Child {
    std::size_t cell;
    int output;
  };

  bool readTally() {
    if (settings_.tally.empty()) return true;
    const std::string heading = "random transfers, seed " + std::to_string(settings_.seed) + ", " +
                                std::to_string(share_) + " messages in each of " +
                                std::to_string(cells_.size()) +
                                " cells: cell messages bytes groups silent flushed shortened";
    std::ifstream file(settings_.tally);
    std::string line;
    if (!std::getline(file, line)) {
      std::ofstream(settings_.tally) << heading << '\n';
      return true;
    }
    if (line != heading) {
      std::fprintf(stderr, "%s is of another run: %s\n", settings_.tally.c_str(), line.c_str());
      return false;
    }
    while (std::getline(file, line)) {
      std::istringstream words(line);
      std::string cell;
      Counts counts;
      if (words >> cell >> counts) done_[cell] = counts;
    }
    return true;
  }

  void start(std::size_t index) {
    const Child child{index, memfd_create("cell", 0)};
    const std::string cell = cellName(cells_[index]);
    const std::string seed =
        std::to_string(settings_.seed * 1'000'003 + std::hash<std::string>()(cell) % 999'983);
    const std::string messages = std::to_string(share_);
    const std::string largest = std::to_string(settings_.largest);
    std::fflush(stdout);
    const pid_t pid = fork();
    if (pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      dup2(child.output, STDOUT_FILENO);
      dup2(child.output, STDERR_FILENO);
      execl("/proc/self/exe", "plugin_random_transfers", "--cell", cell.c_str(), "--cell-seed", seed.c_str(),
            "--messages", messages.c_str(), "--largest", largest.c_str(), nullptr);
      _exit(127);
    }
    running_[pid] = child;
  }

  void waitForOne() {
    int status = 0;
    const pid_t pid = wait(&status);
    const auto found = running_.find(pid);
    if (found == running_.end()) return;
    const std::string cell = cellName(cells_[found->second.cell]);
    std::string output;
    char buffer[4096];
    lseek(found->second.output, 0, SEEK_SET);
    for (ssize_t got; (got = read(found->second.output, buffer, sizeof buffer)) > 0;)
      output.append(buffer, static_cast<std::size_t>(got));
    close(found->second.output);
    running_.erase(found);
    std::istringstream words(output);
    Counts counts;
    if (status == 0 && words >> counts) {
      done_[cell] = counts;
      std::ofstream tally;
      if (!settings_.tally.empty()) tally.open(settings_.tally, std::ios::app);
      tally << cell << ' ' << counts << '\n';
      return;
    }
    ++failures_;
    std::printf("%s failed (status 0x%x):\n%s\n", cell.c_str(), status, output.c_str());
  }

  // Sums over the cells that have a property in common.
  void printSums(const std::function<std::string(const Cell&)>& property) const {
    std::map<std::string, std::pair<int, Counts>> sums;
    std::vector<std::string> order;
    for (const Cell& cell : matrix()) {
      const auto found = done_.find(cellName(cell));
      if (found == done_.end()) continue;
      const std::string key = property(cell);
      if (sums.count(key) == 0) order.push_back(key);
      ++sums[key].first;
      add(sums[key].second, found->second);
    }
    for (const std::string& key : order) {
      const auto& [cells, c] = sums[key];
      std::printf("| %-22s | %5d | %8llu | %9.3f | %7llu | %7llu | %7llu | %9llu |\n", key.c_str(), cells,
                  static_cast<unsigned long long>(c.messages), static_cast<double>(c.bytes) / (1 << 30),
                  static_cast<unsigned long long>(c.groups), static_cast<unsigned long long>(c.silent),
                  static_cast<unsigned long long>(c.flushed), static_cast<unsigned long long>(c.shortened));
    }
  }

  void print() const {
    std::printf("| %-22s | %5s | %8s | %9s | %7s | %7s | %7s | %9s |\n", "matrix", "cells", "messages", "GiB",
                "groups", "silent", "flushed", "shortened");
    std::printf("|---|---|---|---|---|---|---|---|\n");
    const auto rails = [](const Cell& c) { return std::to_string(c.rails) + " rails"; };
    if (settings_.tally.empty()) {
      printSums([](const Cell& c) { return "v" + std::to_string(c.version); });
      printSums([](const Cell& c) { return c.link; });
      printSums(rails);
    } else {
      printSums(
          [&](const Cell& c) { return "v" + std::to_string(c.version) + " " + c.link + " " + rails(c); });
    }
    if (!onRealDevices()) printModes();
    printSums([](const Cell& c) { return std::to_string(c.queue_pairs) + " queue pairs"; });
    printSums([](const Cell& c) { return c.split ? "split over queue pairs" : "queue pairs in turn"; });
    printSums([](const Cell&) { return "all"; });
  }

  void printModes() const {
    printSums([](const Cell& c) { return c.unequal ? "unequal speeds" : "equal speeds"; });
    printSums([](const Cell& c) { return c.engine ? "engine on" : "engine off"; });
    printSums([](const Cell& c) { return c.adversarial ? "adversarial on" : "adversarial off"; });
  }

  const Settings& settings_;
  std::vector<Cell> cells_;
  uint64_t share_;  // messages of each cell
  std::map<std::string, Counts> done_;
  std::map<pid_t, Child> running_;
  int failures_ = 0;
};

}  // namespace
}  // namespace railwise::test

int main(int argc, char** argv) {
  railwise::test::Settings settings;
  if (!railwise::test::parse(argc, argv, &settings)) return railwise::test::usage();
  if (!settings.cell.empty()) return railwise::test::runOnly(settings);
  return railwise::test::Driver(settings).run();
}
