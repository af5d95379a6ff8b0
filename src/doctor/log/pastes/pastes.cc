// ibstat, ibv_devinfo, show_gids, lspci -vv, ethtool -S, NCCL's RAS, and the list of all readers.
#include "doctor/log/pastes/pastes.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/text/words.h"
#include "doctor/log/job.h"
#include "doctor/log/reading/line.h"

namespace railwise::doctor {
namespace {

constexpr std::size_t kMostItems = 256;  // ports, bridges, counters of one paste

std::string_view trimmedText(std::string_view text) { return trimmed(text, " \t"); }

// "State: Active" -> "Active", for the key "State".
std::string_view valueOf(std::string_view line, std::string_view key) {
  const std::string_view text = trimmedText(line);
  if (!text.starts_with(key) || text.size() <= key.size() || text[key.size()] != ':') return {};
  return trimmedText(text.substr(key.size() + 1));
}

// ibstat: "CA 'mlx5_0'", "Port 1:", "State: Active", "Rate: 400". ibv_devinfo: "hca_id: mlx5_0", "port: 1",
// "state: PORT_ACTIVE (4)", "active_mtu: 1024 (3)".
class PortStates : public Paste {
 public:
  bool line(std::string_view text, const std::string& where) override {
    const std::string_view plain = trimmedText(text);
    std::string_view name;
    if (plain.starts_with("CA '")) name = firstWord(plain.substr(4), "'");
    else name = valueOf(text, "hca_id");
    if (!name.empty()) {
      if (ports_.size() < kMostItems) ports_.push_back({.nic = std::string(name), .where = where});
      return true;
    }
    if (ports_.empty()) return false;
    Port& port = ports_.back();
    struct Field {
      std::string_view key;
      std::string& value;
    };
    for (const Field& field :
         {Field{"State", port.state}, Field{"state", port.state}, Field{"Physical state", port.physical},
          Field{"Rate", port.rate}, Field{"active_mtu", port.mtu}, Field{"max_mtu", port.most_mtu},
          Field{"Link layer", port.layer}, Field{"link_layer", port.layer}}) {
      const std::string_view value = valueOf(text, field.key);
      if (value.empty()) continue;
      if (!field.value.empty()) return true;  // a second port
      field.value = std::string(value);
      if (field.key == "State" || field.key == "state") port.where = where;
      return true;
    }
    return false;
  }

  void addTo(Pastes& pastes, const std::string& file) const override {
    if (std::ranges::none_of(ports_, [](const Port& port) { return !port.state.empty(); })) return;
    pastes.kinds.push_back(file + ": states of " + counted(ports_.size(), "port"));
    const bool any = std::ranges::any_of(ports_, isActive);
    std::map<std::string, std::vector<std::string>> rates;
    for (const Port& port : ports_) {
      pastes.looked.push_back(port.nic + ": " + port.state +
                              (port.rate.empty() ? "" : ", " + port.rate + " Gb/s") +
                              (port.layer.empty() ? "" : ", " + port.layer));
      if (isActive(port) && !port.rate.empty()) rates[port.rate].push_back(port.nic);
      if (!isActive(port) && !port.state.empty()) addDown(pastes, port, any);
      if (leadingNumber(port.mtu) == 1024 && leadingNumber(port.most_mtu) > 1024)
        pastes.add("port-mtu", Severity::kAdvice, "the port's MTU is 1024 bytes",
                   {{port.nic, port.where, "active_mtu " + port.mtu + ", max_mtu " + port.most_mtu}},
                   "On RoCE it follows the interface's MTU: 1500 gives 1024, 4200 and more 4096. Small "
                   "packets cost speed.",
                   "ip link set <interface> mtu 9000  # on all hosts, and on the switches");
    }
    if (rates.size() < 2) return;
    std::vector<Seen> seen;
    for (const auto& [rate, nics] : rates) seen.push_back({firstItems(nics, 8), "", rate + " Gb/s"});
    pastes.add("port-rates", Severity::kAdvice, "the ports have different rates", std::move(seen),
               "A port below the others is a bad cable or lane, or a NIC for another purpose.",
               "mlxlink -d <NIC> -m -c  # cable, lanes, bit errors");
  }

 private:
  struct Port {
    std::string nic, where, state, physical, rate, mtu, most_mtu, layer;
  };
  static bool isActive(const Port& port) { return hasWords(port.state, "Active|PORT_ACTIVE"); }
  static void addDown(Pastes& pastes, const Port& port, bool any) {
    const bool waits = hasWords(port.state, "nit|INIT|rmed|ARMED");
    pastes.add(
        "port-down", any ? Severity::kWarning : Severity::kError,
        waits ? "no subnet manager has configured the port" : "the port is down",
        {{port.nic, port.where, port.state + (port.physical.empty() ? "" : ", " + port.physical)}},
        waits ? "It has a link, and no connection can be made until a subnet manager gives it a LID."
              : "NCCL leaves the port out; hosts that have its rail wait for it or go around.",
        waits ? "sminfo  # does a subnet manager answer?"
              : "rdma link show; mlxlink -d " + port.nic + " -m -c  # cable, transceiver, the switch's port");
  }
  std::vector<Port> ports_;
};

// show_gids: "mlx5_0 1 3 0000:...:ffff:0a00:0001 10.0.0.1 v2 eth0"
class AddressTable : public Paste {
 public:
  bool line(std::string_view text, const std::string& where) override {
    const std::vector<std::string> words = wordsOf(text);
    if (words.size() >= 4 && words[0] == "DEV" && words[1] == "PORT" && words[2] == "INDEX")
      return header_ = true;
    if (!header_ || words.size() < 5 || leadingNumber(words[1]) < 0 || leadingNumber(words[2]) < 0 ||
        words[3].find(':') == std::string::npos)
      return false;
    Nic& nic = nics_[words[0]];
    if (nic.where.empty()) nic.where = where;
    const bool second = std::ranges::find(words, "v2") != words.end();
    if (second && words[4].find('.') != std::string::npos)
      nic.indexes.push_back(words[2] + " (" + words[4] + ")");
    return true;
  }

  void addTo(Pastes& pastes, const std::string& file) const override {
    if (nics_.empty()) return;
    pastes.kinds.push_back(file + ": show_gids of " + counted(nics_.size(), "NIC"));
    for (const auto& [name, nic] : nics_) {
      pastes.looked.push_back(name + ": RoCE v2 with IPv4 at index " +
                              (nic.indexes.empty() ? std::string("none") : firstItems(nic.indexes, 4)));
      if (nic.indexes.empty())
        pastes.add("port-address", Severity::kWarning, "no RoCE v2 address with IPv4",
                   {{name, nic.where, "only link-local or RoCE v1 entries"}},
                   "Routers do not carry the others, and NCCL prefers an IPv4 address of RoCE v2.",
                   "ip addr add <address>/<prefix> dev <interface of " + name + ">");
    }
  }

 private:
  struct Nic {
    std::string where;
    std::vector<std::string> indexes;
  };
  bool header_ = false;
  std::map<std::string, Nic> nics_;
};

// lspci -vv: "0000:17:00.0 PCI bridge: ...", then lines that begin with a tab.
class PciDetails : public Paste {
 public:
  bool line(std::string_view text, const std::string& where) override {
    if (text.empty()) return false;
    const std::string_view word = firstWord(text);
    const bool address = word.size() >= 7 && word[word.size() - 2] == '.' &&
                         word.find(':') != std::string_view::npos &&
                         word.find_first_not_of("0123456789abcdef:.") == std::string_view::npos &&
                         text.find(": ") != std::string_view::npos;
    if (address) {
      device_ = std::string(word);
      what_ = std::string(after(text, " "));
      return true;
    }
    if (device_.empty() || (text[0] != '\t' && text[0] != ' ')) return false;
    if (const auto control = after(text, "ACSCtl:"); control.data() != nullptr) {
      ++controls_;
      if (hasWords(control, "ReqRedir+|CmpltRedir+") && redirecting_.size() < kMostItems)
        redirecting_.push_back({device_, where, "ACSCtl:" + std::string(control)});
      return true;
    }
    const auto status = after(text, "LnkSta:");
    if (status.data() == nullptr) return false;
    links_ = true;
    const bool matters = hasWords(what_, "Mellanox|NVIDIA|Infiniband|Ethernet|3D controller");
    if (matters && hasWords(status, "(downgraded)&Width") && downgraded_.size() < kMostItems)
      downgraded_.push_back({device_, where, std::string(trimmedText(status))});
    return true;
  }

  void addTo(Pastes& pastes, const std::string& file) const override {
    if (controls_ == 0 && !links_) return;
    pastes.kinds.push_back(file + ": lspci -vv");
    pastes.looked.push_back("ACS: " + std::to_string(redirecting_.size()) + " of " +
                            counted(controls_, "bridge") + " redirect requests");
    if (controls_ == 0) pastes.hidden.push_back("ACS: lspci shows it to root alone");
    pastes.add(
        "acs-on", Severity::kError, "ACS sends peer-to-peer requests of PCIe up to the CPU", redirecting_,
        "GPUDirect through these bridges is slow, or fails with completion status 4 or 10.",
        "switch ACS off in the BIOS, or: sudo setpci -s <address> ECAP_ACS+6.w=0000  # each bridge, at "
        "each boot\n"
        "railwise doctor --only gpudirect  # on the machine: only bridges between a GPU and a NIC matter");
    pastes.add("pcie-link", Severity::kWarning, "a PCIe link is slower or narrower than its device",
               downgraded_,
               "The device carries less than its port. An idle GPU lowers its speed: look at it under "
               "load; a width below the device's is a fault.",
               "sudo lspci -vv -s <address> | grep -E 'LnkCap|LnkSta'  # reseat the card");
  }

 private:
  std::string device_, what_;
  std::size_t controls_ = 0;
  bool links_ = false;
  std::vector<Seen> redirecting_, downgraded_;
};

// ethtool -S: "NIC statistics:", then "     rx_discards_phy: 12". The output does not say since when the
// counters run, nor of which interface they are: one sample is no rate and two samples cannot be joined, so
// that they are advice.
class NicCounters : public Paste {
 public:
  bool line(std::string_view text, const std::string& where) override {
    if (trimmedText(text) == "NIC statistics:") return header_ = true;
    if (!header_ || text.empty() || (text[0] != ' ' && text[0] != '\t')) return false;
    const std::string_view plain = trimmedText(text);
    const std::string_view name = firstWord(plain, ":");
    const std::string_view value = valueOf(plain, name);
    if (value.empty() || value == "0" || leadingNumber(value.substr(0, 9)) < 0) return header_;
    ++counters_;
    if (hasWords(name, "symbol_err|link_down|pcs_symbol|crc_err|fec_uncorrect|in_range_len"))
      add(errors_, name, value, where);
    else if (hasWords(name, "discard|out_of_buffer|out_of_sequence|buffer_full"))
      add(lost_, name, value, where);
    else if (hasWords(name, "pause")) add(pauses_, name, value, where);
    return true;
  }

  void addTo(Pastes& pastes, const std::string& file) const override {
    if (!header_) return;
    pastes.kinds.push_back(file + ": ethtool -S");
    if (!pauses_.empty())
      pastes.looked.push_back("pause frames: " + text(pauses_) + " (no limit is known for them)");
    pastes.add(
        "nic-counters", Severity::kAdvice,
        "the port has counted errors of its link, at a time that nobody knows", errors_,
        "If they grow: a cable, a transceiver or a switch's port. They run since the driver was loaded.",
        "ethtool -S <interface> | grep -E 'err|down'  # twice, a minute apart\n"
        "mlxlink -d <NIC> -m -c -e");
    pastes.add("nic-counters", Severity::kAdvice, "the port has dropped packets, at a time that nobody knows",
               lost_,
               "If they grow: RoCE needs a network that drops nothing. PFC or ECN does not hold on this "
               "priority, or the host is too slow to take the packets.",
               "ethtool -S <interface> | grep -E 'discard|out_of|full'  # twice, a minute apart\n"
               "mlnx_qos -i <interface>  # PFC on the priority that RoCE uses, here and on the switch");
  }

 private:
  static void add(std::vector<Seen>& seen, std::string_view name, std::string_view value,
                  const std::string& where) {
    if (seen.size() < kMostItems) seen.push_back({"", where, std::string(name) + " " + std::string(value)});
  }
  static std::string text(const std::vector<Seen>& seen) {
    std::vector<std::string> texts;
    for (const Seen& each : seen) texts.push_back(each.value);
    return firstItems(texts, 4);
  }
  bool header_ = false;
  std::size_t counters_ = 0;
  std::vector<Seen> errors_, lost_, pauses_;
};

// The text of NCCL's RAS client: "#0-0 (1234) MISMATCH", "  Rank 3 has launched up to operation 7 -- GPU
// ...".
class RasReport : public Paste {
 public:
  bool line(std::string_view text, const std::string& where) override {
    const std::string_view plain = trimmedText(text);
    const bool underlined = std::exchange(titled_, plain == "Job summary") && plain.starts_with("====");
    if (underlined || plain.starts_with("Communicators...")) return header_ = true;
    if (!header_) return false;
    const bool state =
        hasWords(plain, "INCOMPLETE|DEAD|MISMATCH|TIMEOUT") && plain.find("  ") == std::string_view::npos;
    if (state) state_ = std::string(plain.substr(plain.find_last_of(' ') + 1));
    const bool rank = plain.starts_with("Rank ") || plain.starts_with("Process ");
    if ((rank || hasWords(plain, "ranks have launched|considered dead|Missing communicator data")) &&
        !state_.empty() && seen_[state_].size() < kMostItems) {
      seen_[state_].push_back({"", where, std::string(plain)});
      return true;
    }
    return state;
  }

  void addTo(Pastes& pastes, const std::string& file) const override {
    if (!header_) return;
    pastes.kinds.push_back(file + ": NCCL's RAS report");
    struct Row {
      const char* state;
      Severity severity;
      const char* what;
      const char* why;
    };
    static constexpr Row kRows[] = {
        {"DEAD", Severity::kError, "processes of the job are dead",
         "Their hosts do not answer RAS any more."},
        {"INCOMPLETE", Severity::kError, "ranks are missing in a communicator",
         "They have ended, or never came to the init that the others wait in."},
        {"MISMATCH", Severity::kError, "ranks of a communicator are at different operations",
         "The ranks with the lowest number hold the others up: look at what they do."},
        {"TIMEOUT", Severity::kWarning, "RAS itself got no answer from some processes",
         "They hang or are overloaded."}};
    for (const Row& row : kRows)
      if (const auto seen = seen_.find(row.state); seen != seen_.end())
        pastes.add("ras-report", row.severity, row.what, seen->second, row.why,
                   "py-spy dump --pid <process of these ranks>; dmesg -T | tail  # on their nodes");
  }

 private:
  bool titled_ = false;  // the line before is the title
  bool header_ = false;
  std::string state_;
  std::map<std::string, std::vector<Seen>> seen_;
};

// dmesg, journalctl -k: only that it is one; known_other.cc knows the lines.
class KernelMessages : public Paste {
 public:
  bool line(std::string_view text, const std::string&) override {
    // "[  123.456] ", "[Sat Nov 28 12:04:07 2026] "
    const bool seconds = text.find('.') < 14 && text.find_first_not_of(" .0123456789", 1) == text.find(']');
    const bool day = text.size() > 4 && hasWords(text.substr(1, 4), "Mon |Tue |Wed |Thu |Fri |Sat |Sun ");
    const bool stamped = text.starts_with('[') && text.find("] ") < 32 && (seconds || day);
    const bool named = text.find(" kernel: ") < 64;
    known_ = known_ || named ||
             (stamped &&
              hasWords(text,
                       "mlx5_core|NVRM|pcieport|kernel|nvidia|usb|ACPI|oom|AER|nvswitch|IOMMU|DMAR|EDAC|"
                       "mce: |Link DOWN|soft lockup|blocked for more than|segfault at|nfs: "));
    if (stamped || named) ++lines_;
    return false;  // other readers may want the line
  }
  void addTo(Pastes& pastes, const std::string& file) const override {
    if (known_) pastes.kinds.push_back(file + ": a kernel log, " + counted(lines_, "line"));
  }

 private:
  bool known_ = false;  // a line has words of the kernel's: other programs write seconds in brackets too
  std::size_t lines_ = 0;
};

}  // namespace

PasteReader::PasteReader() = default;

void PasteReader::beginFile(std::string name) {
  endFile();
  file_ = std::move(name);
  line_ = 0;
  readers_.push_back(gpuMatrix());
  const auto add = [&]<typename... Kinds>() { (readers_.push_back(std::make_unique<Kinds>()), ...); };
  add.operator()<PortStates, AddressTable, PciDetails, NicCounters, RasReport, KernelMessages>();
}

void PasteReader::line(std::string_view text) {
  const std::string_view plain = plainText(text, buffer_);
  const std::string where = file_ + ":" + std::to_string(++line_);
  if (plain.find(" NCCL ") != std::string_view::npos) return;
  for (const auto& reader : readers_)
    if (reader->line(plain, where)) return;
}

void PasteReader::endFile() {
  for (const auto& reader : readers_) reader->addTo(pastes_, file_);
  readers_.clear();
}

Pastes PasteReader::take() {
  endFile();
  return std::move(pastes_);
}

bool namesProcess(std::string_view line, std::string_view pid, std::string_view host) {
  const std::string words = "rocess " + std::string(pid) + " on node " + std::string(host);
  const auto at = line.find(words);
  if (pid.empty() || at == std::string_view::npos) return false;
  const std::string_view behind = line.substr(at + words.size());
  return behind.empty() || behind[0] == ' ' || behind[0] == ',' || behind[0] == '.';
}

Pastes readPastes(const std::string& name, std::string_view text) {
  PasteReader reader;
  reader.beginFile(name);
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    reader.line(line);
    text.remove_prefix(std::min(text.size(), line.size() + 1));
  }
  return reader.take();
}

}  // namespace railwise::doctor
