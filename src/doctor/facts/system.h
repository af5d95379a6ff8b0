// The machine as the checks see it: a tree of files with everything that is to be known, and short ways to
// read it. What no file of the machine has (the environment, answers of verbs and netlink) lies in the tree
// below /railwise; gather.h puts it there. So each check works alike on this machine, on a recorded one and
// on one that a test has made. What is not in the tree is not known, and a check then says nothing.
// Thread-safe if the tree is.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/text/words.h"
#include "sysfs/pci_devices.h"

namespace railwise::doctor {

// The files below /railwise.
inline constexpr char kEnvironmentFile[] = "/railwise/environment";  // NAME=value, one per line
inline constexpr char kAccessFile[] = "/railwise/access";  // PATH or CALL, then "ok" or an errno's name
inline constexpr char kVerbsFile[] = "/railwise/verbs";    // DEVICE PORT KEY=value...
inline constexpr char kDcbFolder[] = "/railwise/dcb/";     // a file for each interface
inline constexpr char kLinkModesFolder[] = "/railwise/ethtool/";   // Mb/s of the fastest mode, by interface
inline constexpr char kInterfacesFile[] = "/railwise/interfaces";  // NAME ADDRESS, in NCCL's order
inline constexpr char kOwnPluginFile[] = "/railwise/own_plugin";   // path of Railwise's own plugin
inline constexpr char kSoftwareDeviceFile[] = "/railwise/software_device";  // path; not there: not installed
inline constexpr char kLibrariesFile[] = "/railwise/libraries";  // PATH WORD: what a library is (libraries.h)
// A folder for each interface: what its driver counts, a file for each counter.
inline constexpr char kEthernetCounters[] = "/railwise/ethernet_counters/";
// The counters of the ports some time later, below this folder; the file has the milliseconds between.
inline constexpr char kLaterFolder[] = "/railwise/later";
inline constexpr char kLaterFile[] = "/railwise/later/milliseconds";

// A setting of a job, and who has set it: "the environment", or "/etc/nccl.conf:3".
struct Variable {
  std::string value;
  std::string where;
};

enum class Packages { kUnknown, kApt, kDnf };

class System {
 public:
  // `tree` must outlive it.
  explicit System(const sysfs::FileTree& tree);

  const sysfs::FileTree& tree() const { return tree_; }
  // The first line without spaces at its ends; "": there is no such file.
  std::string line(const std::string& path) const;
  // The whole file up to `most` bytes; "": there is no such file.
  std::string text(const std::string& path, std::size_t most = 1 << 20) const;
  std::optional<long long> number(const std::string& path) const;
  bool exists(const std::string& path) const { return tree_.exists(path); }
  // The path of a file that a setting names. A job reads a relative one from its current folder.
  std::string pathOf(const std::string& named) const;
  // False: a relative path on another machine, whose jobs' folder nobody knows.
  bool placeKnown(const std::string& named) const { return named.starts_with('/') || tree_.live(); }
  // The value behind `key` and a colon, as in /proc/self/status. "": there is none.
  std::string field(const std::string& path, std::string_view key) const;

  // The variables of the environment and of NCCL's configuration files, as NCCL reads them.
  const std::map<std::string, Variable>& variables() const { return variables_; }
  // Null: not set, or empty.
  const Variable* variable(const std::string& name) const;
  // Is it set to "0"?
  bool isOff(const std::string& name) const;
  // Takes the variable of another environment, unless the tree says what the environment is.
  void assume(const std::string& name, const char* value);
  // True if the tree says what the environment is.
  bool environmentKnown() const { return tree_.exists(kEnvironmentFile); }

  // What the tree says of an attempt: "ok", the name of an errno, or "" if nobody has tried.
  std::string access(const std::string& what) const;

  // {6, 8} of "6.8.0-45-generic"; {0, 0}: not known.
  std::pair<int, int> kernel() const;
  bool moduleLoaded(const std::string& name) const { return sysfs::moduleLoaded(tree_, name); }
  Packages packages() const;
  // The command for this machine's distribution; both if it is not known.
  std::string byDistribution(const std::string& debian, const std::string& redhat) const;
  // The command that installs packages here.
  std::string installCommand(const std::string& apt, const std::string& dnf) const;
  // "docker", "podman", "kubernetes", "a container"; "": none.
  std::string container() const;
  bool virtualMachine() const;
  // Arm's IOMMU, which must translate on Grace.
  bool hasSmmu() const;
  bool isRoot() const;
  bool hasCapability(int bit) const;

 private:
  void readVariables();

  const sysfs::FileTree& tree_;
  std::map<std::string, Variable> variables_;
};

}  // namespace railwise::doctor
