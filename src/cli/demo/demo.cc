// railwise demo: what Railwise does, in less than a minute, with the command for each step.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/text/text_layout.h"
#include "base/text/words.h"
#include "cli/demo/failing_port.h"
#include "cli/device/machine.h"
#include "cli/options/command_line.h"
#include "cli/options/commands.h"
#include "cli/options/message.h"
#include "cli/plugin/plugin_loader.h"

namespace railwise::cli {
namespace {

constexpr const char* kHelp =
    "usage: railwise demo [options]\n\n"
    "Shows in less than a minute what Railwise does: the devices that a job would use, which NIC a GPU gets, "
    "an all_reduce between four processes, and a port that fails in the middle of a job, with the throughput "
    "drawn. Each step names the command that does it by hand. A machine without RDMA devices and GPUs will "
    "do: the software device and a machine that Railwise brings take their places.\n\n"
    "  railwise demo --plugin /path/to/libnccl-net-other.so    # the failing port with another plugin too\n\n"
    "Exit status: 0 every step of Railwise's own was right, 1 one was not, 2 a mistake on the command "
    "line.\n\n";

struct DemoOptions {
  std::string plugin;
  std::string machine;
  int seconds = 6;
};

// Whether the user's terminal shows block characters.
bool terminalHasUnicode() {
  for (const char* variable : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* const value = std::getenv(variable);
    if (value == nullptr || *value == '\0') continue;
    const std::string_view locale = value;
    return locale.find("UTF-8") != std::string_view::npos || locale.find("utf8") != std::string_view::npos;
  }
  return false;
}

class Demo {
 public:
  explicit Demo(const DemoOptions& options) : options_(options), unicode_(terminalHasUnicode()) {}

  int run() {
    if (const std::string problem = pluginProblem(); !problem.empty()) {
      std::fputs(problem.c_str(), stderr);
      return kExitFailed;
    }
    head("Devices", "The devices that the plugin offers to NCCL on this machine.", "railwise devices");
    show({"devices"});
    explainGpu();
    head("all_reduce", "Four processes add 1 MiB of data over the plugin, and verify the sums.",
         "railwise perf all_reduce --ranks 4 -b 1K -e 1M -f 32");
    show({"perf", "all_reduce", "--ranks", "4", "-b", "1K", "-e", "1M", "-f", "32", "-n", "5"});
    failPort("A port fails", "");
    if (!options_.plugin.empty()) failPort("The same with the plugin " + options_.plugin, options_.plugin);
    std::printf(
        "\n== What next\n"
        "  railwise doctor          what is wrong with this machine\n"
        "  railwise help            all commands\n"
        "  With NCCL:\n"
        "    export%s NCCL_NET_PLUGIN=railwise NCCL_NET=Railwise NCCL_DEBUG=INFO\n",
        pluginFolder().c_str());
    if (!good_) std::printf("\nA step has failed: see above.\n");
    return good_ ? kExitOk : kExitFailed;
  }

 private:
  void head(const std::string& title, const char* sentence, const std::string& command) {
    std::printf("%s== %d. %s\n%s\n$ %s\n\n", number_ == 0 ? "" : "\n", number_ + 1, title.c_str(), sentence,
                command.c_str());
    ++number_;
  }

  // " LD_LIBRARY_PATH=/folder:$LD_LIBRARY_PATH"; "" where the plugin is in no folder beside this command, or
  // in one of the system, where the dynamic linker looks by itself.
  static std::string pluginFolder() {
    const std::string file = ownPluginFile();
    const std::string folder = file.substr(0, file.find_last_of('/') + 1);
    const bool of_system = folder.starts_with("/usr/lib/") || folder.starts_with("/usr/lib64/") ||
                           folder.starts_with("/lib/") || folder.starts_with("/lib64/");
    return folder.empty() || of_system
               ? ""
               : " LD_LIBRARY_PATH=" + folder.substr(0, folder.size() - 1) + ":$LD_LIBRARY_PATH";
  }
  // Why the other plugin cannot be loaded at all; "" if it can, whether it finds a device or not.
  std::string pluginProblem() const {
    if (options_.plugin.empty()) return "";
    DemoChild child({"devices", "--plugin", options_.plugin}, {}, DemoChild::Output::kKept);
    child.wait();
    const std::string said = child.output();
    return said.find("cannot load plugin") == std::string::npos ? "" : said;
  }

  void show(const std::vector<std::string>& words) {
    DemoChild child(words, {}, DemoChild::Output::kShown);
    if (child.wait() != 0) good_ = false;
  }

  void explainGpu() {
    constexpr const char* kPretend = "dgx";
    std::string machine = options_.machine;
    if (machine.empty() && !explains({"explain", "--gpu", "0"})) machine = kPretend;
    std::vector<std::string> words = {"explain", "--gpu", "3"};
    if (!machine.empty()) words.insert(words.end(), {"--machine", machine});
    if (machine.empty() || !explains(words)) words[2] = "0";
    const bool pretends = machine != options_.machine;
    const std::string sentence =
        pretends ? "Which NIC a GPU gets, and why: this machine has no GPU, so GPU 3 of a DGX-like one."
                 : "Which NIC GPU " + words[2] + " of this machine gets, and why.";
    std::string command = "railwise";
    for (const std::string& word : words) command += " " + word;
    head("Which NIC serves a GPU", sentence.c_str(), command);
    show(words);
  }

  static bool explains(const std::vector<std::string>& words) {
    DemoChild child(words, {}, DemoChild::Output::kKept);
    return child.wait() == 0;
  }

  void failPort(const std::string& title, const std::string& plugin) {
    const FailingPortPlan plan = {plugin, options_.seconds,
                                  "demo" + std::to_string(getpid()) + (plugin.empty() ? "" : "-peer")};
    head(title,
         plugin.empty() ? "A job runs over two software ports of 2.5 Gb/s. One goes down, and comes back."
                        : "The same job, the same ports, the same failure.",
         joined(failingPortCommands(plan), "\n$ "));
    const FailingPortRun run = runFailingPort(plan);
    std::fputs(drawChart(run.curves, run.marks, run.seconds, unicode_, kPortsGbits).c_str(), stdout);
    std::printf("\n%s\n", verdict(run).c_str());
    if (run.exit_status != 0) std::fputs(lastLines(run.output).c_str(), stdout);
    if (plugin.empty() && !run.survived) good_ = false;
  }

  static std::string verdict(const FailingPortRun& run) {
    if (run.marks.empty() && run.exit_status == 0)
      return "The plugin moved its data without a software device: no port of its could fail.";
    if (run.marks.empty()) return "The job did not get far enough for its port to fail.";
    const std::string rates =
        textOf("%.2g Gb/s before, %.2g Gb/s while the port was down", run.usual_gbits, run.least_gbits);
    const std::string pause = run.pause_seconds < 0.15 ? "no pause that this drawing could show"
                                                       : textOf("longest pause %.1f s", run.pause_seconds);
    const bool stood_still = run.least_gbits < run.usual_gbits / 10;
    if (run.survived)
      return (stood_still ? "The job stood still until the port was back, all data right:\n"
                          : "The job survived, all data right:\n") +
             rates + ",\n" + pause + ".";
    return "The job did not survive:\n" + rates + ",\n" + pause +
           (run.exit_status < 0 ? ", and it stood still until the demo ended it."
                                : textOf(", exit status %d.", run.exit_status));
  }

  static std::string lastLines(const std::string& text) {
    constexpr int kLines = 5;
    const std::vector<std::string> lines = fullPartsOf(text, '\n');
    std::string last;
    for (std::size_t i = lines.size() > kLines ? lines.size() - kLines : 0; i < lines.size(); ++i)
      last += wrappedText(lines[i], "  ", "  ");
    return last;
  }

  const DemoOptions& options_;
  const bool unicode_;
  int number_ = 0;
  bool good_ = true;
};

}  // namespace

int demoCommand(Args args) {
  DemoOptions options;
  const std::vector<Option> table = {
      textOption(0, "plugin", "NAME", &options.plugin,
                 "show the failing port with this net plugin too, e.g. NCCL's own as a plugin"),
      textOption('m', "machine", "NAME|FILE", &options.machine,
                 "the machine whose GPU 3, or GPU 0, is explained; as for explain (default: this machine, or "
                 "dgx where it has no GPU)"),
      intOption('s', "seconds", &options.seconds, 3, 60,
                "seconds of traffic around the failing port (default: 6)")};
  int status = kExitOk;
  const auto arguments = parseOrLeave("demo", table, args, kHelp, 0, &status);
  if (!arguments) return status;
  const bool played = !options.machine.empty() && !isRecording(options.machine);
  if (played && !openDeviceMachine("demo", {.machine = options.machine})) return kExitUsage;
  return Demo(options).run();
}

}  // namespace railwise::cli
