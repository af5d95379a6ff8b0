#include "cli/device/machine.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "base/text/words.h"
#include "cli/options/message.h"
#include "softdev/config/machines.h"
#include "softdev/engine/attachment.h"
#include "softdev/fabric/joining/membership.h"

namespace railwise::cli {
namespace {

// The fabric of a configuration that names none.
constexpr const char* kUnnamed = "default";

std::string userName() {
  const passwd* user = getpwuid(geteuid());
  return user != nullptr ? user->pw_name : std::to_string(geteuid());
}

constexpr char kDefaultMachine[] = "@default";

// Turns "./lab.conf#B" into "/home/me/lab.conf#B", because the command may change its working directory.
std::string absolute(const std::string& file) {
  const std::size_t end = std::min(file.find_first_of("#;"), file.size());
  std::error_code error;
  const auto path = std::filesystem::absolute(file.substr(0, end), error);
  return (error ? file.substr(0, end) : path.lexically_normal().string()) + file.substr(end);
}

// The text after "software:" for a value of --machine.
std::string textFor(const std::string& machine) {
  if (machine.starts_with('@')) return machine;
  const std::string name = machine.substr(0, machine.find_first_of("#;"));
  if (softdev::findMachine(name) != nullptr) return "@" + machine;
  const bool inlined = name.find('=') != std::string::npos && name.find('/') == std::string::npos;
  if (inlined) return machine;
  std::error_code error;
  const bool meant_shipped = name.find('/') == std::string::npos && !std::filesystem::exists(name, error);
  // The lookup of an unknown "@" name lists the shipped machines.
  return meant_shipped ? "@" + machine : absolute(machine);
}

std::string textFromEnvironment() {
  constexpr std::string_view kSoftware = "software:";
  const char* device = std::getenv("RAILWISE_DEVICE");
  if (device == nullptr || !std::string_view(device).starts_with(kSoftware)) return kDefaultMachine;
  const std::string text = device + kSoftware.size();
  if (text.starts_with("./")) return absolute(text);
  return text.empty() ? kDefaultMachine : text;
}

// Removes "#HOST" from the name of a file or shipped machine, because it would have precedence over --host.
void dropHost(std::string& text) {
  if (!text.starts_with('@') && !text.starts_with('/')) return;
  const std::size_t end = std::min(text.find(';'), text.size());
  const std::size_t hash = text.rfind('#', end);
  if (hash != std::string::npos) text.erase(hash, end - hash);
}

// Removes the pairs fabric=NAME: the option --fabric comes before them.
void dropFabric(std::string& text) {
  constexpr std::string_view kKey = "fabric=";
  constexpr const char* kSeparators = ",; ";
  for (std::size_t at = text.find(kKey); at != std::string::npos; at = text.find(kKey, at)) {
    if (at > 0 && std::string_view(kSeparators).find(text[at - 1]) == std::string_view::npos) {
      ++at;
      continue;
    }
    std::size_t end = std::min(text.find_first_of(kSeparators, at), text.size());
    if (end < text.size() && text[end] == ',') {
      ++end;
    } else if (at > 0 && text[at - 1] == ',') {
      --at;
    }
    text.erase(at, end - at);
  }
}

}  // namespace

void addDeviceMachineOptions(std::vector<Option>& table, DeviceMachineOptions& fields) {
  table.push_back(textOption('m', "machine", "NAME|FILE", &fields.machine,
                             "a machine that Railwise brings (railwise device list), a file, or a\n"
                             "configuration like link=ib,count=2 (default: RAILWISE_DEVICE if it is\n"
                             "software:..., else default)"));
  table.push_back(textOption('H', "host", "NAME", &fields.host,
                             "which of its hosts to be (default: RAILWISE_HOST, else its first)"));
  table.push_back(textOption(0, "fabric", "NAME", &fields.fabric,
                             "fabric: processes reach those with the same name only"));
  Option set = textOption(0, "set", "KEY=VALUE,...", &fields.settings,
                          "more configuration, e.g. pacing=on,latency_ns=2000; repeat for more");
  set.accept = [&fields](std::string_view value) {
    fields.settings.append(";").append(value);
    return !value.empty();
  };
  table.push_back(std::move(set));
}

bool isRecording(const std::string& machine) {
  std::error_code error;
  return machine.ends_with(".tar.gz") || machine.ends_with(".tgz") || machine.ends_with(".tar") ||
         std::filesystem::is_directory(machine, error);
}

bool isShippedMachine(const std::string& name) { return softdev::findMachine(name) != nullptr; }

std::optional<DeviceMachine> openDeviceMachine(const char* command, const DeviceMachineOptions& options) {
  const bool recorded = isRecording(options.machine);
  if (recorded || options.machine.ends_with(".xml"))
    return say("%s: %s is a %s, and no device of it can be opened; railwise explain %s%s says what its NICs "
               "are",
               command, options.machine.c_str(), recorded ? "recorded /sys" : "topology file",
               recorded ? "-m " : "", options.machine.c_str()),
           std::nullopt;
  DeviceMachine machine;
  machine.text = options.machine.empty() ? textFromEnvironment() : textFor(options.machine);
  if (!options.host.empty()) dropHost(machine.text);
  if (!options.fabric.empty()) {
    dropFabric(machine.text);
    machine.text += ";fabric=" + options.fabric;
  }
  machine.text += options.settings;
  const char* variable = std::getenv("RAILWISE_HOST");
  const std::string host = options.host.empty() && variable != nullptr ? variable : options.host;
  const char* const fabric = std::getenv("RAILWISE_FABRIC");
  auto parsed = softdev::parseMachine(machine.text.c_str(), host, fabric != nullptr ? fabric : "");
  if (!parsed.ok()) {
    say("%s: no software machine %s, see above; a FILE or a recording of another machine: railwise help "
        "machines",
        command, options.machine.empty() ? machine.text.c_str() : options.machine.c_str());
    return std::nullopt;
  }
  machine.config = std::move(*parsed);
  return machine;
}

bool playMachine(const char* command, const std::string& machine, const std::string& host) {
  if (machine.empty()) return true;
  const auto opened = openDeviceMachine(command, {.machine = machine, .host = host});
  if (!opened) return false;
  setenv("RAILWISE_DEVICE", ("software:" + opened->text).c_str(), 1);
  setenv("RAILWISE_HOST", opened->config.host().name.c_str(), 1);
  return true;
}

void addDeviceFabricOptions(std::vector<Option>& table, DeviceFabricOptions& fields) {
  table.push_back(textOption(0, "fabric", "NAME", &fields.fabric,
                             "fabric (default: the one that RAILWISE_DEVICE or RAILWISE_FABRIC names,\n"
                             "else default, else the only one in use)"));
  table.push_back(formatOption(&fields.json, "text or json"));
}

DeviceFabric::DeviceFabric(const char* command, const DeviceFabricOptions& options) {
  std::string name = options.fabric;
  if (name.empty()) {
    const auto machine = openDeviceMachine(command, {});
    if (!machine) return;
    name = machine->config.fabric;
  }
  auto joined = softdev::joinFabric(name);
  const bool nobody = !joined.ok() && joined.status().code == Code::kNoDevice;
  if (nobody && options.fabric.empty() && name == kUnnamed) {
    const std::set<std::string> others = softdev::fabricsInUse();
    if (others.size() == 1) {
      name = *others.begin();
      say("%s: on fabric %s, the only one in use", command, name.c_str());
      joined = softdev::joinFabric(name);
    } else if (!others.empty()) {
      say("%s: several fabrics are in use, choose one with --fabric: %s", command,
          railwise::joined(others).c_str());
      return;
    }
  }
  if (joined.ok()) {
    fabric_ = *joined;
  } else if (joined.status().code == Code::kNoDevice) {
    say("%s: no process is on fabric %s of user %s (processes are on it while they have a software device "
        "open)",
        command, name.c_str(), userName().c_str());
  } else {
    say("%s: cannot attach to fabric %s: the reason stands above", command, name.c_str());
  }
}

DeviceFabric::~DeviceFabric() {
  if (fabric_ != nullptr) softdev::detachFabric(fabric_);
}

}  // namespace railwise::cli
