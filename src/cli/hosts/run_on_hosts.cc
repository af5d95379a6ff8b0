#include "cli/hosts/run_on_hosts.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <memory>
#include <string_view>

#include "base/process.h"
#include "base/text/words.h"
#include "cli/options/message.h"

namespace railwise::cli {
namespace {

constexpr std::size_t kMaxName = 255;
constexpr int kSshFailed = 255;
// How late the end of a program without output may be noticed.
constexpr auto kPollPeriod = std::chrono::milliseconds(20);

// The last part of what a program has said on standard error. The caller makes it printable.
std::string lastLine(const std::string& text) {
  const std::string_view said = trimmed(text, "\r\n");
  return std::string(said.substr(said.rfind('\n') + 1));
}

std::string failureText(const std::string& program, const ProcessEnd& end, const std::string& said) {
  const int status = end.shellStatus();
  if (status == kSshFailed) return said.empty() ? "ssh failed without a reason" : said;
  const std::string text = textOf("'%s' ended with status %d", program.c_str(), status) +
                           (status == Process::kNoProgram ? kNoProgramText : "");
  return said.empty() ? text : text + ": " + said;
}

class Run {
 public:
  Run(const HostCommand& command, const RunLimits& limits)
      : limits_(limits), deadline_(Deadline::after(limits.time)), process_(start(command, limits)) {
    answer_.host = command.host;
    program_ = command.words.empty() ? "" : command.words[0];
    if (!process_.ok())
      finish(textOf("'%s' cannot be started: %s", program_.c_str(), process_.error().c_str()));
  }

  bool finished() const { return finished_; }
  Process& process() { return *process_; }
  // Looks whether the program has ended or must end.
  void look() {
    if (process_->output().size() > limits_.bytes) return fail("it answers with too many bytes");
    if (deadline_.passed())
      return fail(textOf("no answer within %.0f s", std::chrono::duration<double>(limits_.time).count()));
    if (process_->outputOpen() || process_->running()) return;
    answer_.out = process_->output();
    const ProcessEnd end = process_->wait();
    finish(end.good() ? "" : failureText(program_, end, lastLine(process_->complaint())));
  }
  HostAnswer takeAnswer() { return std::move(answer_); }

 private:
  static Outcome<Process> start(const HostCommand& command, const RunLimits& limits) {
    ProcessPlan plan;
    plan.words = command.words;
    plan.input = kStreamNothing;
    plan.output = kStreamPipe;
    plan.error = kStreamPipe;
    plan.most_output = limits.bytes;
    plan.own_group = true;  // the time limit also ends what the program has started
    return Process::start(plan);
  }
  void fail(std::string why) {
    if (const std::string said = lastLine(process_->complaint()); !said.empty()) why += "; it says: " + said;
    finish(std::move(why));
  }
  void finish(std::string error) {
    answer_.error = std::move(error);
    finished_ = true;
  }

  const RunLimits& limits_;
  const Deadline deadline_;
  Outcome<Process> process_;
  HostAnswer answer_;
  std::string program_;
  bool finished_ = false;
};

}  // namespace

std::vector<HostAnswer> runOnHosts(const std::vector<HostCommand>& commands, const RunLimits& limits) {
  std::vector<HostAnswer> answers(commands.size());
  std::vector<std::pair<std::size_t, std::unique_ptr<Run>>> running;
  std::size_t next = 0;
  const auto takeFinished = [&] {
    for (auto& [place, run] : running)
      if (run->finished()) answers[place] = run->takeAnswer();
    std::erase_if(running, [](const auto& each) { return each.second->finished(); });
  };
  while (next < commands.size() || !running.empty()) {
    while (next < commands.size() && running.size() < limits.at_once) {
      running.emplace_back(next, std::make_unique<Run>(commands[next], limits));
      ++next;
    }
    takeFinished();  // programs that could not be started
    std::vector<Process*> processes;
    for (auto& [place, run] : running) processes.push_back(&run->process());
    if (!processes.empty()) Process::receiveAny(processes, Deadline::after(kPollPeriod));
    for (auto& [place, run] : running) run->look();
    takeFinished();
  }
  return answers;
}

std::vector<std::string> launchWords(const std::string& launch, const std::string& host,
                                     const std::vector<std::string>& program) {
  constexpr std::string_view kPlace = "{host}";
  std::vector<std::string> words;
  bool placed = launch.empty();
  for (std::string& word : wordsOf(launch)) {
    for (std::size_t at = word.find(kPlace); at != std::string::npos;
         at = word.find(kPlace, at + host.size())) {
      word.replace(at, kPlace.size(), host);
      placed = true;
    }
    words.push_back(std::move(word));
  }
  if (!placed) words.push_back(host);
  words.insert(words.end(), program.begin(), program.end());
  return words;
}

bool isHostName(std::string_view name) {
  if (name.empty() || name.size() > kMaxName || name[0] == '-') return false;
  const auto allowed = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '-' || c == '_' || c == ':' ||
           c == '@';
  };
  return std::ranges::all_of(name, allowed) && std::ranges::count(name, '@') <= 1;
}

Outcome<std::vector<std::string>> parseHostFile(std::string_view text, const std::string& file,
                                                std::size_t most) {
  std::vector<std::string> hosts;
  std::size_t number = 0;
  for (const std::string& line : linesOf(text)) {
    ++number;
    const std::vector<std::string> words = wordsOf(line.substr(0, line.find('#')));
    if (words.empty()) continue;
    const std::string& host = words[0];
    const std::string place = file + ":" + std::to_string(number) + ": ";
    if (!isHostName(host))
      return Error{place + "'" + host.substr(0, 80) +
                   "' is not the name of a host (letters, digits, . - _ : @)"};
    if (std::ranges::find(hosts, host) != hosts.end())
      return Error{place + host + " is there twice: take one of the lines out"};
    if (hosts.size() == most)
      return Error{place + "more than " + std::to_string(most) + " hosts: take them in parts"};
    hosts.push_back(host);
  }
  if (hosts.empty()) return Error{file + ": no host in it; write one host per line"};
  return hosts;
}

std::string nameOfThisHost() {
  if (const char* played = std::getenv("RAILWISE_HOST"); played != nullptr && *played != '\0') return played;
  return hostName();
}

bool isThisHost(const std::string& host) {
  const std::string own = nameOfThisHost();
  const auto head = [](const std::string& name) { return name.substr(0, name.find('.')); };
  return host == "localhost" || host == own || head(host) == head(own);
}

}  // namespace railwise::cli
