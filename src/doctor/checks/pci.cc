// PCI Express cards: links, firmware, ordering, and what stands between a NIC and a GPU.
#include "base/pci.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <set>
#include <utility>

#include "base/text/text_layout.h"
#include "doctor/checks/check.h"
#include "doctor/facts/pci_config.h"
#include "sysfs/pci_devices.h"
#include "sysfs/rdma_devices.h"

namespace railwise::doctor {
namespace {

// Mb/s of all active ports behind the PCIe link of a port's card.
int rateOfCard(const Examination& exam, const RdmaPort& port) {
  const auto card = [&](const RdmaPort& each) {
    return sysfs::cardOf(exam.system.tree(), each.pci_path, false);
  };
  int rate = 0;
  for (const RdmaPort& other : exam.ports)
    if (other.active() && !other.pci_path.empty() && card(other) == card(port)) rate += other.rate_mbps;
  return rate;
}

void checkLinks(Examination& exam) {
  std::set<std::string> done;
  for (const RdmaPort* port : exam.usedPorts()) {
    if (port->pci_path.empty() || port->simulated || !done.insert(port->pci_path).second) continue;
    const sysfs::PciLink now = sysfs::currentLink(exam.system.tree(), port->pci_path);
    const sysfs::PciLink card = sysfs::bestLink(exam.system.tree(), port->pci_path);
    const sysfs::PciLink possible = sysfs::bestLinkInSlot(exam.system.tree(), port->pci_path);
    if (!now.known() || !card.known() || now.mbps() >= card.mbps()) continue;
    const bool by_slot = now.mbps() >= possible.mbps();
    const int wanted = rateOfCard(exam, *port);
    const bool enough = wanted > 0 && now.mbps() >= static_cast<uint32_t>(wanted);
    const std::string busid(sysfs::baseName(port->pci_path));
    exam.add(enough ? Severity::kAdvice : Severity::kWarning,
             by_slot ? "its PCIe slot is slower than the card" : "its PCIe link is slower than card and slot",
             {{port->device, port->pci_path + "/current_link_speed, current_link_width",
               now.text() + "; the card can " + card.text()}},
             formatText("The link carries %.0f Gb/s, the card's ports %s%s.", now.mbps() / 1000.0,
                        gbpsText(wanted).c_str(), enough ? ": it does not hold them back" : ""),
             by_slot ? "Put the card into a faster slot; lspci -tv"
                     : "sudo lspci -vv -s " + busid +
                           " | grep LnkSta    (downgraded: seat the card again, look at riser and BIOS)");
  }
}

// The best link that most GPUs of one kind can have in their slots. It is not known where no link is in the
// majority.
sysfs::PciLink usualLink(const Examination& exam, const std::vector<sysfs::PciDevice>& gpus,
                         const sysfs::PciDevice& like) {
  std::vector<sysfs::PciLink> links;
  for (const sysfs::PciDevice& gpu : gpus)
    if (gpu.vendor == like.vendor && gpu.device == like.device)
      links.push_back(sysfs::bestLinkInSlot(exam.system.tree(), gpu.path));
  for (const sysfs::PciLink& link : links) {
    const auto alike = std::ranges::count(links, link.mbps(), &sysfs::PciLink::mbps);
    if (2 * static_cast<std::size_t>(alike) > links.size()) return link;
  }
  return {};
}

// A GPU that has nothing to do lowers the speed of its link, and never the lanes.
void checkGpuLinks(Examination& exam) {
  if (exam.simulated()) return;
  const std::vector<sysfs::PciDevice> gpus = exam.ownGpus();
  for (const sysfs::PciDevice& gpu : gpus) {
    const sysfs::PciLink now = sysfs::currentLink(exam.system.tree(), gpu.path);
    const sysfs::PciLink possible = sysfs::bestLinkInSlot(exam.system.tree(), gpu.path);
    const sysfs::PciLink usual = usualLink(exam, gpus, gpu);
    const bool narrow = now.known() && possible.known() && now.lanes < possible.lanes;
    const bool by_slot = possible.known() && usual.known() && possible.mbps() < usual.mbps();
    if (!narrow && !by_slot) continue;
    exam.add(
        Severity::kWarning,
        narrow ? "its PCIe link has fewer lanes than GPU and slot"
               : "its PCIe slot is slower than those of the other GPUs",
        {{"GPU " + gpu.busid,
          gpu.path + (narrow ? "/current_link_speed, current_link_width" : "/max_link_speed, max_link_width"),
          narrow ? now.text() + "; GPU and slot can " + possible.text()
                 : possible.text() + " at most; most GPUs here " + usual.text()}},
        "Data to NICs and CPUs takes this link. (Only the lanes tell: an idle GPU lowers the speed.)",
        "sudo lspci -vv -s " + gpu.busid +
            " | grep -e LnkCap -e LnkSta    (seat the GPU again, look at riser and BIOS)");
  }
}

// Cards of one kind: those with other firmware than most are named, and first.
void checkFirmware(Examination& exam) {
  using Devices = std::set<std::string>;
  std::map<std::pair<std::string, std::string>, std::map<std::string, Devices>> kinds;  // versions by kind
  for (const RdmaPort& port : exam.ports)
    if (!port.type.empty() && !port.firmware.empty())
      kinds[{port.type, port.board}][port.firmware].insert(port.device);
  for (const auto& [kind, versions] : kinds) {
    if (versions.size() < 2) continue;
    std::vector<std::pair<std::string, Devices>> groups(versions.begin(), versions.end());
    std::ranges::stable_sort(groups, {}, [](const auto& group) { return group.second.size(); });
    const auto& [version, most] = groups.back();
    const bool odd = most.size() > groups[groups.size() - 2].second.size();
    const std::string others = odd ? "The others have " + version + " (" +
                                         firstItems(std::vector<std::string>(most.begin(), most.end()), 8) +
                                         "). "
                                   : "";
    std::vector<Seen> seen;
    for (const auto& group : groups)
      for (const std::string& device : group.second)
        if (!odd || group.first != version)
          seen.push_back({device, "/sys/class/infiniband/" + device + "/fw_ver", group.first});
    exam.add(Severity::kWarning,
             odd ? "its firmware is not that of the other cards of its kind (" + kind.second + ")"
                 : "cards of one kind (" + kind.second + ") have different firmware",
             std::move(seen),
             others + "Rails behave differently: speed, adaptive routing, congestion control.",
             "sudo mstflint -d <PCI address> query    (package mstflint; the card's vendor has the image), "
             "update the older ones");
  }
}

// By its PCI id: in a VM a virtual function has no link to its card.
bool isVirtualFunction(const System& system, const std::string& path) {
  static constexpr std::array kIds = {"0x1014", "0x1016", "0x1018", "0x101a", "0x101c", "0x101e"};
  const std::string id = system.line(path + "/device");
  return system.line(path + "/vendor") == pci::kMellanox && std::ranges::find(kIds, id) != kIds.end();
}

void checkRelaxedOrdering(Examination& exam) {
  if (exam.system.isOff("NCCL_IB_PCI_RELAXED_ORDERING"))
    exam.add(
        Severity::kWarning, "relaxed ordering is switched off by a setting",
        {{"", exam.system.variable("NCCL_IB_PCI_RELAXED_ORDERING")->where, "NCCL_IB_PCI_RELAXED_ORDERING=0"}},
        "On AMD EPYC and in virtual machines this costs up to half of a NIC's bandwidth.",
        "unset NCCL_IB_PCI_RELAXED_ORDERING");
  std::set<std::string> done;
  bool unreadable = false, readable = false;
  for (const RdmaPort* port : exam.usedPorts()) {
    if (port->pci_path.empty() || port->simulated || !done.insert(port->pci_path).second) continue;
    // The bit of a virtual function is reserved; its card's function has it, which a VM does not see.
    const std::string card = sysfs::realPathOf(exam.system.tree(), port->pci_path + "/physfn");
    if (card.empty() && isVirtualFunction(exam.system, port->pci_path)) continue;
    const PciConfig config(exam.system, card.empty() ? port->pci_path : card);
    const std::optional<bool> on = config.relaxedOrdering();
    readable = readable || config.complete();
    unreadable = unreadable || (!config.complete() && exam.system.exists(port->pci_path + "/config"));
    if (!on.has_value() || *on) continue;
    const std::string busid(sysfs::baseName(card.empty() ? port->pci_path : card));
    exam.add(Severity::kWarning, "the card may not use relaxed ordering (RlxdOrd-)",
             {{port->device, port->pci_path + "/config, Device Control", "RlxdOrd-"}},
             "On AMD EPYC and in virtual machines this costs up to half of a NIC's bandwidth.",
             "sudo setpci -s " + busid +
                 " CAP_EXP+8.w=10:10\nFor good: PCI_WR_ORDERING=1 in mlxconfig, and \"Relaxed Ordering\" in "
                 "the BIOS");
  }
  if (unreadable) exam.cannotLook("as root: relaxed ordering of the NICs (PCI configuration)", !readable);
}

// The bridges above two devices up to the one that they share. Empty: they share none.
std::vector<std::string> bridgesBetween(const std::string& a, const std::string& b) {
  const auto above = [](std::string path) {
    std::vector<std::string> folders;
    while (true) {
      const std::size_t slash = path.rfind('/');
      if (slash == std::string::npos || slash == 0) return folders;
      path.resize(slash);
      const std::string_view name = sysfs::baseName(path);
      if (name.find(':') == std::string_view::npos || name.starts_with("pci")) return folders;
      folders.push_back(path);
    }
  };
  const std::vector<std::string> first = above(a), second = above(b);
  std::vector<std::string> between;
  for (const std::string& folder : first) {
    between.push_back(folder);
    const auto common = std::ranges::find(second, folder);
    if (common == second.end()) continue;
    between.insert(between.end(), second.begin(), common);
    return between;
  }
  return {};
}

void checkAcs(Examination& exam) {
  const std::vector<sysfs::PciDevice> gpus = exam.ownGpus();
  std::set<std::string> done;
  bool unreadable = false, readable = false;
  for (const RdmaPort* port : exam.usedPorts()) {
    if (port->pci_path.empty() || port->simulated) continue;
    for (const sysfs::PciDevice& gpu : gpus) {
      for (const std::string& bridge : bridgesBetween(port->pci_path, gpu.path)) {
        if (!done.insert(bridge).second) continue;
        const PciConfig config(exam.system, bridge);
        readable = readable || config.complete();
        unreadable = unreadable || (!config.complete() && exam.system.exists(bridge + "/config"));
        const uint16_t control = config.acsControl().value_or(0);
        if ((control & (kAcsRequestRedirect | kAcsCompletionRedirect)) == 0) continue;
        if ((control & kAcsDirectTranslated) != 0) continue;  // ATS: translated requests go straight
        const std::string busid(sysfs::baseName(bridge));
        const std::string value = formatText("ACSCtl 0x%04x (ReqRedir%s CmpltRedir%s)", control,
                                             (control & kAcsRequestRedirect) != 0 ? "+" : "-",
                                             (control & kAcsCompletionRedirect) != 0 ? "+" : "-");
        exam.add(Severity::kError, "ACS sends GPUDirect traffic through the CPU",
                 {{"bridge " + busid, bridge + "/config", value}},
                 "NIC and GPU below one switch then talk through the root complex: half of the bandwidth or "
                 "less, and hangs on some machines.",
                 "sudo setpci -s " + busid +
                     " ECAP_ACS+6.w=0000    (each bridge named above; until the next boot)\n"
                     "For good: ACS off in the BIOS or the switch. On a host of virtual machines leave it on "
                     "and use ATS");
      }
    }
  }
  if (unreadable)
    exam.cannotLook("as root: ACS of the bridges between GPUs and NICs (PCI configuration)", !readable);
}

// "identity" and "" (no IOMMU) leave addresses as they are; "DMA" and "DMA-FQ" translate them.
std::string iommuType(const System& system, const std::string& path) {
  return system.line(path + "/iommu_group/type");
}

void checkIommu(Examination& exam) {
  if (exam.system.virtualMachine() || exam.system.hasSmmu()) return;
  std::vector<Seen> seen;
  std::set<std::string> done;
  const auto look = [&](const std::string& name, const std::string& path) {
    const std::string type = iommuType(exam.system, path);
    if (!type.starts_with("DMA") || !done.insert(path).second) return;
    seen.push_back({name, path + "/iommu_group/type", type});
  };
  const std::vector<sysfs::PciDevice> gpus = exam.ownGpus();
  if (gpus.empty() || exam.ports.empty()) return;
  for (const sysfs::PciDevice& gpu : gpus) look("GPU " + gpu.busid, gpu.path);
  for (const RdmaPort& port : exam.ports)
    if (!port.pci_path.empty()) look(port.device, port.pci_path);
  const std::string debian =
      "sudo sed -i 's/^GRUB_CMDLINE_LINUX=\"/&iommu=pt /' /etc/default/grub && sudo update-grub    (then "
      "reboot when no job runs)";
  const std::string redhat =
      "sudo grubby --update-kernel=ALL --args=iommu=pt    (then reboot when no job runs)";
  exam.add(Severity::kWarning, "the IOMMU translates the addresses of GPUs and NICs", std::move(seen),
           "GPUDirect RDMA and peer-to-peer go through the IOMMU then: slower, and on some machines data is "
           "wrong or the job hangs.",
           exam.system.byDistribution(debian, redhat));
}

constexpr std::array<Check, 6> kPciChecks = {
    {{"pci-link", "rdma", "PCIe links of the NICs against card and slot", checkLinks, Needs::kPort},
     {"gpu-link", "gpudirect", "PCIe links of the GPUs: lanes, and slots against each other", checkGpuLinks,
      Needs::kGpu},
     {"firmware", "rdma", "firmware of cards of one kind", checkFirmware, Needs::kPort},
     {"relaxed-ordering", "rdma", "relaxed ordering on PCIe", checkRelaxedOrdering, Needs::kPort},
     {"acs", "gpudirect", "ACS redirect on bridges between GPUs and NICs", checkAcs, Needs::kGpuAndPort},
     {"iommu", "gpudirect", "an IOMMU that translates", checkIommu, Needs::kGpuAndPort}}};

}  // namespace

std::span<const Check> pciChecks() { return kPciChecks; }

}  // namespace railwise::doctor
