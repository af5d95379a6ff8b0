// railwise topo serve: the drawn page of a machine in a browser, with what running jobs do on it.
#include <chrono>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "cli/http/server.h"
#include "cli/observe/records.h"
#include "cli/options/command_line.h"
#include "cli/options/message.h"
#include "cli/topo/commands.h"
#include "cli/topo/machine_options.h"
#include "observe/top/model.h"
#include "observe/top/screen.h"
#include "topo/explain/channels/channel_ends.h"
#include "topo/explain/explain.h"
#include "topo/outputs/outputs.h"

namespace railwise::cli {
namespace {

constexpr const char* kServe = "topo serve";
constexpr const char* kServeHelp =
    "usage: railwise topo serve [FILE] [--root DIR|TAR] [options]\n\n"
    "Serves the page of `railwise topo show --format html` on this computer, until Ctrl-C. On the page each "
    "NIC "
    "shows what the running jobs of this user move over it, second by second (the records that `railwise "
    "top` "
    "reads), and each GPU has a link to its explanation. FILE is an NCCL (or RCCL) topology file, - standard "
    "input; without one, this machine.\n"
    "Only programs on this computer can connect, and the address has a secret, which another user cannot "
    "guess. From your own computer, for the port 8080:\n\n"
    "  ssh -L 8080:127.0.0.1:8080 HOST railwise topo serve --port 8080\n\n"
    "Exit status: 0 ended by SIGINT or SIGTERM, 1 the machine cannot be read, or the port is taken, 2 a "
    "mistake "
    "on the command line.\n\n";

// Between two reads of the records; a browser asks once a second, and there may be several.
constexpr auto kReadInterval = std::chrono::milliseconds(900);

// What the records say, in the form of `railwise top --json`.
class Live {
 public:
  explicit Live(std::string folder) : folder_(std::move(folder)) {}

  const std::string& json() {
    if (Clock::now() < next_) return json_;
    next_ = Clock::now() + kReadInterval;
    std::vector<std::string> notes;
    auto read = readRecords(folder_, {}, false, &notes);
    before_ = std::move(now_);
    now_.clear();
    if (read.ok()) now_ = std::move(*read);
    else notes.push_back(read.error());
    json_ = observe::top::modelJson(
        observe::top::makeModel(before_, now_, std::move(notes), chosenRecordFolder(folder_)));
    return json_;
  }

 private:
  const std::string folder_;
  Clock::time_point next_;
  std::vector<record::Snapshot> before_;
  std::vector<record::Snapshot> now_;
  std::string json_;
};

// The pages below /TOKEN/. Every other path is answered with 404.
class MachinePages {
 public:
  MachinePages(const topo::Machine& machine, Live& live, std::string token)
      : machine_(machine),
        live_(live),
        root_("/" + std::move(token) + "/"),
        page_(htmlText(machine, topo::HtmlUse::kServed)),
        all_(topo::explain(machine)) {
    topo::addChannels(machine, nullptr, all_);
  }

  HttpAnswer operator()(const std::string& path) const {
    constexpr std::string_view kExplain = "explain/";
    if (!path.starts_with(root_))
      return {.status = 404, .body = "Not here. Use the address that was printed.\n"};
    const std::string_view name = std::string_view(path).substr(root_.size());
    if (name.empty()) return {.type = "text/html; charset=utf-8", .body = page_};
    if (name == "live") return {.type = "application/json", .body = live_.json()};
    if (name.starts_with(kExplain))
      if (const auto rank = parseInt(std::string(name.substr(kExplain.size())), 0, 1 << 20))
        return explained(static_cast<int>(*rank));
    return {.status = 404, .body = "Not here.\n"};
  }

 private:
  HttpAnswer explained(int rank) const {
    topo::ExplainStyle style;
    style.rank = rank;
    const auto text = topo::explainText(machine_, all_, style);
    if (!text.ok()) return {.status = 404, .body = text.error() + "\n"};
    return {.body = *text};
  }

  const topo::Machine& machine_;
  Live& live_;
  const std::string root_;
  const std::string page_;
  topo::MachineExplanation all_;
};

}  // namespace

int topoServeCommand(Args args) {
  MachineOptions machine;
  machine.known_gpus = true;
  machine.say_remarks = false;  // the page contains them
  int port = 0;
  std::string folder;
  std::vector<Option> table = {
      intOption('p', "port", &port, 0, 65535, "the port on 127.0.0.1 (default 0: a free one)"),
      recordFolderOption(&folder)};
  addMachineOptions(table, machine);
  int status = kExitOk;
  const auto arguments = parseOrLeave(kServe, table, args, kServeHelp, 1, &status);
  if (!arguments) return status;
  const auto fail = [](const std::string& error) {
    return say("%s: %s", kServe, error.c_str()), kExitFailed;
  };
  const auto opened =
      openMachine(kServe, arguments->positional.empty() ? "" : arguments->positional[0], machine);
  if (!opened) return kExitFailed;
  const std::string token = randomHex();
  Live live(folder);
  const MachinePages pages(*opened, live, token);
  const int stop_fd = endSignals();
  if (stop_fd < 0) return fail("no signalfd");
  auto server = HttpServer::create("127.0.0.1:" + std::to_string(port),
                                   [&pages](const std::string& path) { return pages(path); });
  if (!server.ok()) return fail(server.error());
  std::printf("open http://%s/%s/\nCtrl-C ends it.\n", server->address().text().c_str(), token.c_str());
  std::fflush(stdout);
  // False before its time: poll() fails.
  for (auto until = Clock::now(); Clock::now() >= until;) {
    until = Clock::now() + std::chrono::hours(24);
    if (server->serve(stop_fd, until)) return kExitOk;
  }
  return fail("cannot wait for browsers");
}

}  // namespace railwise::cli
