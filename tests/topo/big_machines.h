// Topology files of any size as NCCL would dump them, for tests of growth.
#pragma once

#include <string>

#include "base/text/text_layout.h"

namespace railwise::topo::test {

class MachineText {
 public:
  MachineText() { line("<system version=\"1\">"); }

  // One host with 8 GPUs and 8 NICs: two NUMA nodes of two PCIe switches, each with two GPUs and two NICs,
  // and NVSwitch. With `described` false only PCI devices are listed, so that the loader numbers them.
  static std::string hgx(bool described = true) {
    MachineText text;
    text.described_ = described;
    for (int numa = 0; numa < 2; ++numa) {
      text.openCpu(0, numa,
                   R"(affinity="ffffffff" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143")");
      for (int bridge = numa * 2; bridge < numa * 2 + 2; ++bridge) {
        text.openSwitch(bridge);
        for (int gpu = bridge * 2; gpu < bridge * 2 + 2; ++gpu) text.gpu(gpu, gpu, "90", "");
        for (int net = bridge * 2; net < bridge * 2 + 2; ++net) text.net(net, net);
        text.line("</pci>");
      }
      text.line("</cpu>");
    }
    return text.finish();
  }

  // `hosts` of 4 GPUs and 4 NICs in one NVLink domain, as NCCL fuses them (GB200 NVL72: 18 hosts).
  static std::string nvlinkDomain(int hosts) {
    MachineText text;
    for (int host = 0; host < hosts; ++host)
      for (int numa = 0; numa < 2; ++numa) {
        text.openCpu(host, numa, R"(affinity="ffffffff" arch="arm64")");
        for (int i = numa * 2; i < numa * 2 + 2; ++i) {
          text.gpu(host * 4 + i, i, "100", R"(<c2c bw="44712" count="10"/>)");
          text.net(host * 4 + i, i);
        }
        text.line("</cpu>");
      }
    return text.finish();
  }

 private:
  void line(const std::string& text) { text_ += text + "\n"; }

  void openCpu(int host, int numa, const char* identity) {
    line(formatText(R"(<cpu host_hash="0x%x" numaid="%d" %s>)", host + 1, numa, identity));
  }

  void openSwitch(int number) {
    line(formatText(
        R"(<pci busid="0000:%02x:00.0" class="0x060400" vendor="0x1000" device="0xc030" )"
        R"(subsystem_vendor="0x1000" subsystem_device="0x1000" link_speed="32.0 GT/s PCIe" link_width="16">)",
        0x10 + number * 0x10));
  }

  void openDevice(int bus, const char* pci_class) {
    line(formatText(R"(<pci busid="0000:%02x:00.0" class="%s" link_speed="32.0 GT/s PCIe" link_width="16">)",
                    bus, pci_class));
  }

  void gpu(int rank, int dev, const char* sm, const char* more) {
    openDevice(0x11 + dev * 8, "0x030200");
    if (described_) {
      line(formatText(R"(<gpu dev="%d" sm="%s" rank="%d" gdr="1">)", dev, sm, rank));
      line(R"(<nvlink target="fffffff:ffff:ff" count="18" tclass="0x068000"/>)");
      if (*more != 0) line(more);
      line("</gpu>");
    }
    line("</pci>");
  }

  void net(int dev, int local) {
    openDevice(0x13 + local * 8, "0x020700");
    if (described_) {
      line("<nic>");
      line(formatText(R"(<net name="mlx5_%d" dev="%d" latency="0" speed="400000" port="1" guid="0x%x" )"
                      R"(maxconn="131072" gdr="1"/>)",
                      local, dev, 0x1000 + dev));
      line("</nic>");
    }
    line("</pci>");
  }

  std::string finish() {
    line("</system>");
    return std::move(text_);
  }

  std::string text_;
  bool described_ = true;
};

}  // namespace railwise::topo::test
