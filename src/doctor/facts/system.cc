#include "doctor/facts/system.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/settings/config.h"

namespace railwise::doctor {
System::System(const sysfs::FileTree& tree) : tree_(tree) { readVariables(); }

std::string System::line(const std::string& path) const {
  return std::string(trimmed(sysfs::firstLine(tree_, path)));
}

std::string System::text(const std::string& path, std::size_t most) const {
  return tree_.read(path, most).value_or("");
}

std::string System::pathOf(const std::string& named) const {
  if (named.starts_with('/') || !tree_.live()) return named;
  std::error_code error;
  return (std::filesystem::current_path(error) / named).string();
}

std::optional<long long> System::number(const std::string& path) const {
  const std::string text = line(path);
  const std::string_view number = std::string_view(text).substr(0, text.find(' '));
  return number.starts_with("0x") ? numberIn<long long>(number.substr(2), 16) : numberIn<long long>(number);
}

std::string System::field(const std::string& path, std::string_view key) const {
  for (const std::string& line : linesOf(text(path))) {
    const auto colon = line.find(':');
    if (colon != std::string::npos && trimmed(std::string_view(line).substr(0, colon)) == key)
      return std::string(trimmed(std::string_view(line).substr(colon + 1)));
  }
  return {};
}

void System::readVariables() {
  for (const std::string& line : linesOf(text(kEnvironmentFile))) {
    const auto equals = line.find('=');
    if (equals != std::string::npos && equals > 0)
      variables_.emplace(line.substr(0, equals), Variable{line.substr(equals + 1), "the environment"});
  }
  const auto text_of = [this](const char* name) {
    const Variable* const its = variable(name);
    return its == nullptr ? std::string() : its->value;
  };
  for (ConfVariable& set :
       ncclConfVariables(text_of("NCCL_CONF_FILE"), text_of("HOME"), sysfs::runsRccl(tree_),
                         [this](const std::string& path) { return text(pathOf(path)); }))
    variables_.emplace(std::move(set.name), Variable{std::move(set.value), set.where()});
}

void System::assume(const std::string& name, const char* value) {
  if (value != nullptr && !environmentKnown())
    variables_.emplace(name, Variable{value, "the environment of this command"});
}

const Variable* System::variable(const std::string& name) const {
  const auto found = variables_.find(name);
  return found == variables_.end() || found->second.value.empty() ? nullptr : &found->second;
}

bool System::isOff(const std::string& name) const {
  const Variable* const set = variable(name);
  return set != nullptr && set->value == "0";
}

std::string System::access(const std::string& what) const {
  for (const std::string& line : linesOf(text(kAccessFile))) {
    const std::vector<std::string> words = wordsOf(line);
    if (words.size() >= 2 && words[0] == what) return words[1];
  }
  return {};
}

std::pair<int, int> System::kernel() const {
  const std::string release = line("/proc/sys/kernel/osrelease");
  std::pair<int, int> version;
  const char* const last = release.data() + release.size();
  const auto major = std::from_chars(release.data(), last, version.first);
  if (major.ec != std::errc() || major.ptr == last || *major.ptr != '.') return {};
  if (std::from_chars(major.ptr + 1, last, version.second).ec != std::errc()) return {};
  return version;
}

Packages System::packages() const {
  for (const std::string& line : linesOf(text("/etc/os-release"))) {
    if (!line.starts_with("ID=") && !line.starts_with("ID_LIKE=")) continue;
    for (const char* name : {"debian", "ubuntu"})
      if (line.find(name) != std::string::npos) return Packages::kApt;
    for (const char* name : {"rhel", "fedora", "centos", "rocky", "almalinux", "amzn", "ol"})
      if (line.find(name) != std::string::npos) return Packages::kDnf;
  }
  return Packages::kUnknown;
}

std::string System::byDistribution(const std::string& debian, const std::string& redhat) const {
  if (packages() == Packages::kApt) return debian;
  if (packages() == Packages::kDnf) return redhat;
  return debian + "    (Debian, Ubuntu)\n" + redhat + "    (RHEL and its like)";
}

std::string System::installCommand(const std::string& apt, const std::string& dnf) const {
  return byDistribution("sudo apt-get install " + apt, "sudo dnf install " + dnf);
}

std::string System::container() const {
  if (variables_.contains("KUBERNETES_SERVICE_HOST") || tree_.exists("/run/secrets/kubernetes.io"))
    return "kubernetes";
  if (tree_.exists("/.dockerenv")) return "docker";
  if (tree_.exists("/run/.containerenv")) return "podman";
  if (tree_.exists("/.singularity.d")) return "apptainer";
  if (tree_.exists("/run/systemd/container")) return "a container";
  const std::string groups = text("/proc/1/cgroup");
  for (const char* name : {"docker", "kubepods", "containerd", "libpod", "crio", "lxc"})
    if (groups.find(name) != std::string::npos) return "a container";
  // The root of a container is an overlay, or the snapshot of one.
  for (const std::string& line : linesOf(text("/proc/self/mountinfo"))) {
    const std::vector<std::string> words = wordsOf(line);
    if (words.size() > 4 && words[4] == "/" && line.find(" - overlay ") != std::string::npos)
      return "a container";
  }
  return {};
}

// As systemd-detect-virt: by the CPU on x86, by DMI and the device tree elsewhere.
bool System::virtualMachine() const {
  if (tree_.exists("/sys/hypervisor/type") || tree_.exists("/proc/device-tree/hypervisor")) return true;
  const std::string flags = field("/proc/cpuinfo", "flags");
  if ((" " + flags + " ").find(" hypervisor ") != std::string::npos) return true;
  const std::string vendor = line("/sys/class/dmi/id/sys_vendor");
  const std::string product = line("/sys/class/dmi/id/product_name");
  for (const char* name : {"QEMU", "VMware", "Google", "Xen"})
    if (vendor.starts_with(name)) return true;
  if (vendor == "Amazon EC2") return product.find("metal") == std::string::npos;
  return vendor == "Microsoft Corporation" && product == "Virtual Machine";
}

bool System::hasSmmu() const {
  const std::vector<std::string> names = tree_.list("/sys/class/iommu");
  return std::ranges::any_of(names, [](const std::string& name) { return name.starts_with("smmu3."); });
}

bool System::isRoot() const {
  const std::vector<std::string> ids = wordsOf(field("/proc/self/status", "Uid"));
  return ids.size() >= 2 && ids[1] == "0";
}

bool System::hasCapability(int bit) const {
  // The kernel asks for the capability in its first user namespace: that of a rootless container does not
  // count.
  const std::vector<std::string> users = wordsOf(line("/proc/self/uid_map"));
  if (users.size() == 3 && (users[0] != "0" || users[1] != "0" || users[2] != "4294967295")) return false;
  return (numberIn<uint64_t>(field("/proc/self/status", "CapEff"), 16).value_or(0) >> bit & 1) != 0;
}

}  // namespace railwise::doctor
