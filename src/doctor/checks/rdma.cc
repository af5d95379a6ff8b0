// RDMA devices: are they there, may this process open them, and is their library installed?
#include <algorithm>
#include <cstdlib>
#include <set>

#include "base/nic_drivers.h"
#include "base/text/name_selection.h"
#include "doctor/checks/check.h"
#include "doctor/facts/libraries.h"

namespace railwise::doctor {
namespace {

// The kernel's module for a network card that could do RDMA; "": none is known.
std::string_view moduleFor(const sysfs::PciDevice& device) {
  const NicDriver* const driver = nicDriverOf("", device.vendor);
  if (device.vendor == pci::kMellanox) return device.device_class.starts_with("0x02") ? driver->module : "";
  // EFA's ids are 0xefa0 and up; Amazon's plain Ethernet cards have others.
  if (device.vendor == pci::kAmazon) return device.device.starts_with("0xefa") ? driver->module : "";
  // Of these vendors only the classes that are always RDMA cards: others have plain Ethernet cards too.
  if (!device.device_class.starts_with("0x0207")) return "";
  return driver != nullptr ? driver->module : "ib_core";
}

// Has the card of the function an RDMA device, on any function? A bond has one for two functions.
bool cardHasDevice(const Examination& exam, const sysfs::PciDevice& device) {
  const auto card = [](const std::string& path) { return path.substr(0, path.rfind('.')); };
  return std::ranges::any_of(exam.ports,
                             [&](const RdmaPort& port) { return card(port.pci_path) == card(device.path); });
}

void checkDevices(Examination& exam) {
  if (!exam.options.topology_file.empty()) return exam.nothingHere("a topology file alone");
  std::vector<Seen> seen;
  std::string module;
  for (const sysfs::PciDevice& device : sysfs::pciDevices(exam.system.tree())) {
    const std::string needed(moduleFor(device));
    const bool virtual_function = exam.system.exists(device.path + "/physfn");
    if (needed.empty() || virtual_function || givenToGuest(exam.system, device.path)) continue;
    if (cardHasDevice(exam, device)) continue;
    module = needed;
    seen.push_back(
        {device.busid, device.path + "/device", device.vendor + ":" + device.device + ", no RDMA device"});
  }
  // Who recorded a PCI tree may have left out the RDMA devices. With GPUs and cards it is a node that lost
  // them.
  const bool of_node = exam.options.preflight || (!seen.empty() && exam.hasGpu(&sysfs::PciDevice::isGpu));
  if (!exam.system.environmentKnown() && exam.ports.empty() && !of_node)
    return exam.cannotLook("RDMA devices: the recording has none in /sys/class/infiniband");
  const Variable* const device = exam.system.variable("RAILWISE_DEVICE");
  const bool software = device != nullptr && device->value.starts_with("software");
  const char* const why =
      software
          ? "Railwise runs on software devices, as RAILWISE_DEVICE asks; NCCL's own network uses sockets."
          : exam.withoutNics();
  if (!seen.empty()) {
    // In a container, devices of the host without their RDMA device are not this container's.
    if (!exam.ports.empty() && !exam.system.container().empty()) return;
    if (!exam.ports.empty()) {
      const std::string busid = seen[0].device;
      return exam.add(
          Severity::kWarning, "the card has no RDMA device", std::move(seen),
          "NCCL does without its bandwidth, unless it is a card for the front network.",
          "sudo dmesg | grep " + busid + "    (why the driver refused it)\n" + "sudo modprobe " + module +
              (module == "mlx5_ib"
                   ? "; devlink dev param show pci/" + busid + " name enable_roce    (must be true)"
                   : ""));
    }
    return exam.add(
        Severity::kError, "the card has no RDMA device", std::move(seen), why,
        exam.system.container().empty()
            ? "sudo modprobe " + module + " && rdma link\n" +
                  exam.system.installCommand("rdma-core", "rdma-core")
            : "give the container the card: docker run --network host --device=/dev/infiniband ...");
  }
  if (!exam.ports.empty()) return;
  seen.push_back({"", "/sys/class/infiniband", "empty"});
  Severity severity = exam.options.preflight && !software ? Severity::kError : Severity::kAdvice;
  for (const char* const name : exam.settingsThatWantNics()) {
    if (software) continue;
    severity = Severity::kError;
    const Variable* const set = exam.system.variable(name);
    seen.push_back({"", set->where, std::string(name) + "=" + set->value});
  }
  const char* const install = exam.system.exists(kSoftwareDeviceFile) ? ""
                                                                      : "install the package "
                                                                        "railwise-device, and ";
  exam.add(severity, "this machine has no RDMA device", std::move(seen), why,
           std::string("lspci | grep -i -e infiniband -e ethernet    (a NIC is there: load its driver, e.g. "
                       "modprobe mlx5_ib; none: the machine does not see the card)") +
               (software ? ""
                         : std::string("\nTo try Railwise without a card: ") + install +
                               "export RAILWISE_DEVICE=software"));
}

std::string nodeFix(const System& system, const std::string& path, const std::string& error) {
  const std::string container = system.container();
  if (container == "kubernetes")
    return "request the RDMA device plugin's resource in the pod (resources.limits: rdma/...), or "
           "privileged: true";
  if (!container.empty())
    return "start the container with --device=/dev/infiniband (docker, podman), or bind /dev/infiniband";
  if (error == "EACCES") return "sudo chmod a+rw " + path + "    (rdma-core's udev rules do it at boot)";
  return "sudo modprobe ib_uverbs && sudo udevadm trigger\n" +
         system.installCommand("rdma-core", "rdma-core");
}

void checkNodes(Examination& exam) {
  std::set<std::string> done;
  for (const RdmaPort& port : exam.ports) {
    if (port.simulated || port.not_given || !done.insert(port.device).second) continue;
    const std::string node = verbsNodeOf(exam.system, port.device);
    if (node.empty()) continue;
    const std::string path = "/dev/infiniband/" + node;
    const std::string error = exam.system.access(path);
    if (error.empty() || error == "ok") continue;
    exam.add(Severity::kError,
             error == "ENOENT"   ? "its device node is not there"
             : error == "EPERM"  ? "the device rules of the container (cgroup) forbid its device node"
             : error == "EACCES" ? "this user may not open its device node"
                                 : "its device node cannot be opened",
             {{port.device, path, error}},
             "The NIC cannot be used; NCCL goes on without it, or with TCP sockets when it was the last.",
             nodeFix(exam.system, exam.system.container().empty() ? "/dev/infiniband/uverbs*" : path, error));
  }
}

bool providerInstalled(const System& system, const std::string& provider) {
  if (system.exists("/etc/libibverbs.d/" + provider + ".driver")) return true;
  for (const std::string& folder : verbsFolders(system)) {
    for (const std::string& file : system.tree().list(folder + "/libibverbs"))
      if (file.starts_with("lib" + provider + "-rdmav")) return true;
  }
  return false;
}

bool librariesKnown(const System& system) { return !findLibrary(system, "libc.so.6").empty(); }

void checkProvider(Examination& exam) {
  if (!librariesKnown(exam.system)) return;
  const bool named = exam.system.variable("NCCL_IBVERBS_LIB") != nullptr;
  const std::string library = verbsLibrary(exam.system);
  std::set<std::string> done;
  for (const RdmaPort& port : exam.ports) {
    const NicDriver* const driver =
        nicDriverOf(port.device, exam.system.line("/sys/class/infiniband/" + port.device + "/device/vendor"));
    if (port.simulated || named || driver == nullptr) continue;
    if (!library.empty() && providerInstalled(exam.system, std::string(driver->name))) continue;
    if (!done.insert(port.device).second) continue;
    exam.add(Severity::kError,
             library.empty()
                 ? "libibverbs.so.1 is not installed"
                 : "rdma-core's library for this NIC (" + std::string(driver->name) + ") is not installed",
             {{port.device, library.empty() ? "the linker's search path" : library,
               library.empty() ? "no libibverbs.so.1"
                               : "no libibverbs/lib" + std::string(driver->name) + "-rdmav*.so"}},
             std::string("Programs see no RDMA device. ") + exam.withoutNics(),
             exam.system.installCommand("libibverbs1 ibverbs-providers", "libibverbs rdma-core"));
  }
}

void checkOpening(Examination& exam) {
  std::set<std::string> done;
  for (const RdmaPort& port : exam.ports) {
    if (port.open_error.empty() || port.not_given || !done.insert(port.device).second) continue;
    const std::string node = verbsNodeOf(exam.system, port.device);
    if (!node.empty() && exam.system.access("/dev/infiniband/" + node) != "ok") continue;  // rdma-nodes tells
    exam.add(Severity::kError, "verbs cannot open the device",
             {{port.device, "ibv_open_device", port.open_error}},
             "NCCL goes on without the NIC, or with TCP sockets when it was the last.",
             "sudo dmesg | grep -i -e " + port.device +
                 " -e mlx5 | tail    (firmware that is dead, a driver and a library of different ages)\n"
                 "ibv_devinfo -d " +
                 port.device);
  }
  if (exam.system.text(kVerbsFile).find("answer=late") == std::string::npos) return;
  exam.add(Severity::kError, "verbs did not answer within 2 s, or crashed",
           {{"", "ibv_get_device_list, ibv_open_device, ibv_query_port", "no answer"}},
           "A job hangs in its init in the same place.",
           "sudo dmesg | tail    (a NIC whose firmware does not answer)\nibv_devinfo");
}

void checkVersions(Examination& exam) {
  constexpr int kDmaBufRelease = 34;  // ibv_reg_dmabuf_mr
  const std::string library = verbsLibrary(exam.system);
  const int release = std::atoi(rdmaCoreVersion(library).c_str());
  if (release == 0 || exam.ports.empty() || exam.skipSimulated()) return;
  if (exam.system.exists("/sys/kernel/mm/memory_peers/nv_mem")) return;  // which needs no dma-buf
  const std::pair<int, int> kernel = exam.system.kernel();
  const bool old_library = release < kDmaBufRelease && kernel >= std::pair(5, 12);
  const bool gpus = !sysfs::gpuDevices(exam.system.tree()).empty();
  if (!old_library || !gpus) return;
  exam.add(Severity::kWarning, "rdma-core is older than the kernel: it registers no dma-bufs",
           {{"", library,
             "rdma-core " + std::to_string(release) + ", kernel " +
                 exam.system.line("/proc/sys/kernel/osrelease")}},
           "GPUDirect RDMA then needs nvidia_peermem; rdma-core 34 and later do without it.",
           exam.system.installCommand("rdma-core libibverbs1 ibverbs-providers", "rdma-core libibverbs"));
}

// The names of RDMA devices that an item of NCCL_IB_HCA chooses, each once.
std::set<std::string> chosenBy(const Examination& exam, const PortItem& item, bool exact) {
  std::set<std::string> devices;
  for (const RdmaPort& port : exam.ports) {
    const bool named = exact ? port.device == item.name : port.device.starts_with(item.name);
    if (named && (item.port < 0 || item.port == port.number)) devices.insert(port.device);
  }
  return devices;
}

void checkSelection(Examination& exam) {
  const Variable* set = exam.system.variable("NCCL_IB_HCA");
  const auto selection = set == nullptr ? std::nullopt : parsePortSelection(set->value);
  if (!selection || exam.ports.empty()) return;
  const auto add = [&](Severity severity, const char* what, const std::string& item, const char* why,
                       const std::string& fix) {
    exam.add(severity, what, {{item, set->where, "NCCL_IB_HCA=" + set->value}}, why, fix);
  };
  if (exam.usedPorts().empty()) {
    add(Severity::kError, "NCCL_IB_HCA chooses no port of this machine", "", exam.withoutNics(),
        "ls /sys/class/infiniband\nunset NCCL_IB_HCA    (or name devices that are there: =mlx5_0,mlx5_1)");
    return;
  }
  if (selection->exclude) {
    std::vector<std::string> all;
    for (const RdmaPort& port : exam.ports) all.push_back(port.device);
    for (const std::string& name : namesOfNoDevice(*selection, all))
      add(Severity::kAdvice, "NCCL_IB_HCA leaves out a device that is not there", name,
          "A mistyped name leaves nothing out: the NIC that was meant is in use.",
          "ls /sys/class/infiniband");
    return;
  }
  for (const std::string& item : fullPartsOf(set->value, ','))
    if (std::ranges::count(item, ':') > 3)
      add(Severity::kAdvice, "NCCL_IB_HCA has a field that nobody reads", item,
          "After a name come port, rail and plane at most.", "export NCCL_IB_HCA=<name:port:rail:plane>,...");
  std::set<std::string> all, chosen;
  for (const RdmaPort& port : exam.ports)
    if (!port.not_given && port.active()) {
      all.insert(port.device);
      if (!port.left_out) chosen.insert(port.device);
    }
  if (2 * chosen.size() < all.size())
    exam.add(Severity::kAdvice,
             "NCCL_IB_HCA leaves out " + std::to_string(all.size() - chosen.size()) + " of " +
                 std::to_string(all.size()) + " RDMA devices",
             {{"", set->where, "NCCL_IB_HCA=" + set->value}}, "Their rails are not used.",
             "unset NCCL_IB_HCA    (or name all NICs that jobs shall use)");
  for (const PortItem& item : selection->items) {
    const std::set<std::string> devices = chosenBy(exam, item, selection->exact);
    const bool spaced = trimmed(item.name) != item.name;
    if (devices.empty())
      add(Severity::kWarning, "NCCL_IB_HCA names a device that is not there",
          spaced ? "\"" + item.name + "\"" : item.name,
          spaced ? "The space is a part of the name: its rail is lost."
                 : "Its rail is lost here; other nodes may have it.",
          spaced ? "export NCCL_IB_HCA=" + joined(wordsOf(set->value), "") : "ls /sys/class/infiniband");
    // "mlx5_1" is a name, and the beginning of "mlx5_10" too.
    if (!selection->exact && devices.size() > 1 && devices.contains(item.name))
      add(Severity::kWarning, "NCCL_IB_HCA chooses more devices than its names", item.name,
          "A name chooses every device that begins so: mlx5_1 is mlx5_10 too.",
          "export NCCL_IB_HCA==" + set->value + "    (\"=\" before the list: exact names)");
  }
}

constexpr std::array<Check, 6> kRdmaChecks = {
    {{"rdma-devices", "rdma", "RDMA cards without an RDMA device", checkDevices},
     {"rdma-nodes", "rdma", "device nodes /dev/infiniband/uverbs*, and the right to open them", checkNodes,
      Needs::kPort},
     {"rdma-open", "rdma", "devices that verbs cannot open", checkOpening, Needs::kPort},
     {"rdma-provider", "rdma", "libibverbs and its library for each NIC", checkProvider, Needs::kPort},
     {"rdma-versions", "rdma", "rdma-core against the kernel", checkVersions, Needs::kPort},
     {"hca-selection", "rdma", "NCCL_IB_HCA against the devices", checkSelection, Needs::kPort}}};

}  // namespace

std::span<const Check> rdmaChecks() { return kRdmaChecks; }

}  // namespace railwise::doctor
