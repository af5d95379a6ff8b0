// What lint must find: one edit of a faultless machine per trap. For lint_test.cc; the tests' own names.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <ostream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "topo/lint/lint.h"

namespace railwise::topo::test {

// A machine without a fault. The traps below are edits of it.
inline constexpr const char* kMachine = R"(<system version="1">
  <cpu numaid="0" affinity="00000000,0000ffff" arch="x86_64" vendor="AuthenticAMD" familyid="175" modelid="1">
    <pci busid="0000:40:00.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16">
      <pci busid="0000:41:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">
        <gpu dev="0" sm="90" rank="0" gdr="1">
          <nvlink target="0000:81:00.0" count="4" tclass="0x030200"/>
        </gpu>
      </pci>
      <pci busid="0000:42:00.0" class="0x020700" link_speed="32.0 GT/s PCIe" link_width="16">
        <nic>
          <net name="mlx5_0" dev="0" speed="400000" port="1" guid="0xa0" gdr="1"/>
        </nic>
      </pci>
    </pci>
  </cpu>
  <cpu numaid="1" affinity="0000ffff,00000000" arch="x86_64" vendor="AuthenticAMD" familyid="175" modelid="1">
    <pci busid="0000:80:00.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16">
      <pci busid="0000:81:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">
        <gpu dev="1" sm="90" rank="1" gdr="1">
          <nvlink target="0000:41:00.0" count="4" tclass="0x030200"/>
        </gpu>
      </pci>
      <pci busid="0000:82:00.0" class="0x020700" link_speed="32.0 GT/s PCIe" link_width="16">
        <nic>
          <net name="mlx5_1" dev="1" speed="400000" port="1" guid="0xa1" gdr="1"/>
        </nic>
      </pci>
    </pci>
  </cpu>
</system>
)";

// One that leaves GPUs and NICs to detection, as clouds publish them.
inline constexpr const char* kPciOnly = R"(<system version="1">
  <cpu numaid="0" affinity="ff" arch="x86_64" vendor="AuthenticAMD" familyid="175" modelid="1">
    <pci busid="ffff:ff:01.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16">
      <pci busid="0000:41:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16"/>
      <pci busid="0000:42:00.0" class="0x020700" link_speed="32.0 GT/s PCIe" link_width="16"/>
    </pci>
  </cpu>
</system>
)";

inline constexpr const char* kFlat = R"(<system version="1">
  <cpu numaid="0" affinity="ff" arch="x86_64" vendor="AuthenticAMD" familyid="175" modelid="1">
    <pci busid="0000:41:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16"/>
    <pci busid="0000:42:00.0" class="0x020700" link_speed="32.0 GT/s PCIe" link_width="16"/>
  </cpu>
</system>
)";

inline std::string manyNics() {
  std::string text =
      "<system version=\"1\">\n"
      "<cpu numaid=\"0\" affinity=\"ff\" arch=\"x86_64\" vendor=\"AuthenticAMD\" familyid=\"175\" "
      "modelid=\"1\">\n";
  for (int i = 0; i < 100; i++) {
    char pci[160];
    std::snprintf(
        pci, sizeof pci,
        "<pci busid=\"0000:%02x:00.0\" class=\"0x020700\" link_speed=\"16 GT/s\" link_width=\"16\"/>\n",
        static_cast<unsigned>(i));
    text += pci;
  }
  return text + "</cpu>\n</system>\n";
}

using Edits = std::vector<std::pair<std::string, std::string>>;

// Replaces the first occurrence of each; an edit that finds nothing is a mistake in the test.
inline std::string edited(std::string text, const Edits& edits) {
  for (const auto& [from, to] : edits) {
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    if (at != std::string::npos) text.replace(at, from.size(), to);
  }
  return text;
}

struct Trap {
  const char* rule;
  Finding::Severity severity;
  int line;
  Edits edits;
  std::set<std::string> also = {};  // what cannot be avoided besides
  std::string base = kMachine;
};

inline void PrintTo(const Trap& trap, std::ostream* out) { *out << trap.rule << " in line " << trap.line; }

inline constexpr auto kError = Finding::kError;
inline constexpr auto kWarning = Finding::kWarning;
inline constexpr auto kNote = Finding::kNote;

inline const std::string kSwitch =
    R"(<pci busid="0000:40:00.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16">)";
inline const std::string kGpu0 = R"(<gpu dev="0" sm="90" rank="0" gdr="1">)";
inline const std::string kLink0 = R"(<nvlink target="0000:81:00.0" count="4" tclass="0x030200"/>)";
inline const std::string kNicLine =
    R"(busid="0000:42:00.0" class="0x020700" link_speed="32.0 GT/s PCIe" link_width="16">)";
inline const std::string kBroadcom =
    R"( vendor="0x1000" device="0xc010" subsystem_vendor="0x1000" subsystem_device="0xa000")";
inline const std::string kWidth = R"(link_speed="32.0 GT/s PCIe" link_width="16")";

// What follows from the address of GPU 1 at the other end of GPU 0's link.
inline const std::set<std::string> kLinkLost = {"nvlink-target-missing", "nvlink-asymmetric"};

inline std::vector<Trap> tagTraps() {
  return {
      {"rccl-version",
       kNote,
       1,
       {{"version=\"1\"", "version=\"2\""},
        {"gdr=\"1\">", "gdr=\"1\" gcn=\"942\" arch=\"1\">"},
        {"rank=\"1\" gdr=\"1\">", "rank=\"1\" gdr=\"1\" gcn=\"942\" arch=\"1\">"}}},
      {"rccl-version", kError, 1, {{"version=\"1\"", "version=\"2\""}}, {"gpu-incomplete"}},
      {"unknown-tag", kWarning, 10, {{"<nic>", "<nic><led/>"}}},
      {"wrong-parent", kError, 10, {{"<nic>", "<nic><gpu rank=\"3\"/>"}}},
      {"xgmi-in-version-1",
       kError,
       5,
       {{kGpu0, kGpu0 + "<xgmi target=\"0000:81:00.0\" count=\"1\" tclass=\"0x030200\"/>"}}},
      {"extra-system", kError, 30, {{"</system>", "</system><system version=\"1\"/>"}}},
      {"empty-system", kWarning, 1, {}, {}, "<system version=\"1\"/>"},
      {"node-limit", kWarning, 1, {}, {}, manyNics()},
      {"too-many-attributes", kError, 10, {{"<nic>", "<nic                 >"}}, {"empty-attribute"}},
      {"empty-attribute", kNote, 2, {{"numaid=\"0\" ", "numaid=\"0\"  "}}},
      {"empty-attribute",
       kNote,
       11,
       {{"gdr=\"1\"/>", "gdr=\"1\" />"}},
       {},
       edited(kMachine, {{kLink0, kLink0}})},
      {"text-after-slash", kWarning, 11, {{"guid=\"0xa0\" gdr=\"1\"/>", "guid=\"0xa0\" gdr=\"1\"/x>"}}},
      {"unknown-attribute", kWarning, 11, {{"port=\"1\"", "prot=\"1\""}}, {"net-incomplete"}},
      {"unknown-attribute", kWarning, 11, {{"port=\"1\"", "\tport=\"1\""}}, {"net-incomplete"}},
      {"duplicate-attribute", kError, 11, {{"port=\"1\"", "port=\"1\" port=\"2\""}}},
      {"entity", kWarning, 11, {{"mlx5_0", "mlx5&amp;0"}}},
      {"bad-number", kError, 5, {{"rank=\"0\"", "rank=\"O\""}}},
      {"bad-number", kWarning, 11, {{"port=\"1\"", "port=\"010\""}}},
      {"bad-number", kError, 9, {{"\"0000:42:00.0\"", "\"0000:42:00.0\" vendor=\"15b3\""}}},
      {"bad-number", kWarning, 9, {{kNicLine, edited(kNicLine, {{"\"16\"", "\"16 lanes\""}})}}},
      {"keep", kWarning, 5, {{"rank=\"0\"", "rank=\"0\" keep=\"1\""}}},
      {"keep", kNote, 11, {{"port=\"1\"", "port=\"1\" keep=\"1\""}}},
  };
}

inline std::vector<Trap> cpuTraps() {
  const std::string identity = " vendor=\"AuthenticAMD\" familyid=\"175\" modelid=\"1\"";
  return {
      {"cpu-numaid", kError, 2, {{"numaid=\"0\" ", ""}}},
      {"numaid-unknown", kNote, 16, {{"numaid=\"1\"", "numaid=\"-1\""}}},
      {"duplicate-numaid", kError, 16, {{"numaid=\"1\"", "numaid=\"0\""}}},
      {"cpu-incomplete", kError, 2, {{" affinity=\"00000000,0000ffff\"", ""}}},
      {"cpu-incomplete", kError, 2, {{" arch=\"x86_64\"" + identity, ""}}},
      {"cpu-incomplete", kNote, 2, {{" affinity=\"ff\" arch=\"x86_64\"" + identity, ""}}, {}, kPciOnly},
      {"cpu-modelid", kError, 2, {{identity, " vendor=\"GenuineIntel\" familyid=\"6\""}}},
      {"cpu-arch", kError, 2, {{"x86_64", "aarch64"}}},
      {"cpu-vendor", kWarning, 2, {{"AuthenticAMD", "HygonGenuine"}}},
      {"affinity-unreadable", kError, 2, {{"00000000,0000ffff", "0-15"}}},
      {"affinity-unreadable", kError, 2, {{"00000000,0000ffff", "000000000000ffff"}}},
      {"affinity-empty", kWarning, 2, {{"00000000,0000ffff", "00000000,00000000"}}},
      {"affinity-overlap", kWarning, 16, {{"0000ffff,00000000", "0000ffff,00008000"}}},
      {"host-hash",
       kNote,
       2,
       {{"numaid=\"0\"", "host_hash=\"0x1\" numaid=\"0\""},
        {"numaid=\"1\"", "host_hash=\"0x1\" numaid=\"1\""}}},
      {"several-hosts",
       kWarning,
       2,
       {{"numaid=\"0\"", "host_hash=\"0x1\" numaid=\"0\""}},
       {"nvlink-target-missing"}},
  };
}

inline std::vector<Trap> pciTraps() {
  const std::string leaf = "<pci busid=\"0000:43:00.0\" " + kWidth;
  return {
      {"pci-busid", kError, 9, {{" busid=\"0000:42:00.0\"", ""}}},
      {"busid-malformed", kError, 9, {{"0000:42:00.0", "42:00.0"}}},
      {"busid-case", kWarning, 9, {{"0000:42:00.0", "0000:4A:00.0"}}},
      {"busid-case", kError, 5, {{"0000:42:00.0", "0000:4A:00.0"}}, {}, kPciOnly},
      {"busid-case", kError, 18, {{"\"0000:81:00.0\" class", "\"0000:8A:00.0\" class"}}, kLinkLost},
      {"duplicate-busid", kError, 23, {{"0000:82:00.0", "0000:42:00.0"}}},
      {"duplicate-busid", kWarning, 17, {{"0000:80:00.0", "0000:40:00.0"}}},
      {"pci-incomplete", kError, 9, {{kNicLine, edited(kNicLine, {{" " + kWidth, ""}})}}},
      {"pci-incomplete", kWarning, 4, {{"0000:41:00.0\" class=\"0x030200\"", "0000:41:00.0\""}}},
      {"pci-incomplete", kError, 3, {{" class=\"0x060400\"", ""}}, {}, kPciOnly},
      {"pci-incomplete", kNote, 4, {{" class=\"0x030200\"", ""}}, {}, kPciOnly},
      {"link-speed", kError, 9, {{kNicLine, edited(kNicLine, {{"32.0 GT/s PCIe", "32.0 GT/s"}})}}},
      {"link-speed-unknown", kWarning, 9, {{kNicLine, edited(kNicLine, {{"32.0 GT/s PCIe", "Unknown"}})}}},
      {"link-speed-unknown", kWarning, 9, {{kNicLine, edited(kNicLine, {{"32.0 GT/s PCIe", ""}})}}},
      {"link-width", kWarning, 9, {{kNicLine, edited(kNicLine, {{"\"16\"", "\"0\""}})}}},
      {"link-width", kWarning, 9, {{kNicLine, edited(kNicLine, {{"\"16\"", "\"\""}})}}},
      {"class-unreadable", kError, 9, {{"0x020700", "020700"}}},
      {"class-mismatch", kError, 4, {{"0x030200", "0x120000"}}, {"nvlink-tclass"}},
      {"class-mismatch", kError, 3, {{kSwitch, kSwitch + leaf + " class=\"0x120000\"/>"}}},
      {"class-mismatch", kWarning, 4, {{"0x030200", "0x020000"}}, {"nvlink-tclass"}},
      {"class-mismatch", kWarning, 9, {{"0x020700", "0x0c0300"}}},
      {"class-drops-children", kError, 3, {{"0x060400", "0x068000"}}},
      {"nic-drops-children", kError, 3, {{kSwitch, kSwitch + "<nic/>"}}},
      {"undescribed-device", kWarning, 3, {{kSwitch, kSwitch + leaf + " class=\"0x030200\"/>"}}},
      {"undescribed-device", kNote, 3, {{kSwitch, kSwitch + leaf + " class=\"0x020700\"/>"}}},
      {"empty-bridge", kNote, 3, {{kSwitch, kSwitch + leaf + " class=\"0x060400\"/>"}}},
      {"upstream-slower", kNote, 3, {{kSwitch, edited(kSwitch, {{"\"16\"", "\"8\""}})}}},
      {"bcm-flattened",
       kNote,
       3,
       {{kSwitch,
         edited(kSwitch, {{">", kBroadcom + ">"}}) + leaf + " class=\"0x060400\"" + kBroadcom + "/>"}},
       {"empty-bridge"}},
      {"pcilink-target", kWarning, 3, {{kSwitch, kSwitch + "<pcilink target=\"0000:99:00.0\"/>"}}},
      {"pcilink-target", kError, 3, {{kSwitch, kSwitch + "<pcilink/>"}}},
      {"pcilink-parent", kError, 9, {{kNicLine, kNicLine + "<pcilink target=\"0000:40:00.0\"/>"}}},
      {"flat-machine", kWarning, 2, {}, {}, kFlat},
  };
}

inline std::vector<Trap> gpuTraps() {
  return {
      {"gpu-without-rank", kWarning, 19, {{" rank=\"1\"", ""}}, {"nvlink-target-missing"}},
      {"gpu-without-rank",
       kWarning,
       5,
       {{" rank=\"0\"", ""}, {kLink0, ""}},
       {"nvlink-target-missing", "nvlink-asymmetric"}},
      {"gpu-incomplete", kNote, 5, {{"rank=\"0\" gdr=\"1\"", "rank=\"0\""}}},
      {"gpu-incomplete", kError, 5, {{"rank=\"0\" gdr=\"1\"", "rank=\"0\" keep=\"1\""}}, {"keep"}},
      {"gpu-sm", kWarning, 5, {{"sm=\"90\"", "sm=\"9\""}}},
      {"duplicate-rank", kWarning, 19, {{"rank=\"1\"", "rank=\"0\""}}},
      {"duplicate-rank", kError, 19, {{"rank=\"1\"", "rank=\"0\" keep=\"1\""}}, {"keep"}},
      {"duplicate-rank", kError, 7, {{"</gpu>", "</gpu><gpu dev=\"0\" sm=\"90\" rank=\"0\" gdr=\"1\"/>"}}},
      // The second <gpu> keeps rank 1, which the file gives another device.
      {"duplicate-rank", kError, 20, {{"</gpu>", "</gpu>\n<gpu dev=\"0\" sm=\"90\" rank=\"1\" gdr=\"1\"/>"}}},
      {"duplicate-rank",
       kError,
       19,
       {{"numaid=\"0\"", "host_hash=\"0x1\" numaid=\"0\""}, {"rank=\"1\"", "rank=\"0\""}},
       {"several-hosts", "nvlink-target-missing"}},
      {"duplicate-dev", kWarning, 19, {{"<gpu dev=\"1\"", "<gpu dev=\"0\""}}},
      {"busid-function", kError, 4, {{"0000:41:00.0", "0000:41:00.1"}, {"0000:41:00.0", "0000:41:00.1"}}},
      {"mlopart-range", kError, 5, {{"rank=\"0\"", "rank=\"0\" mlopart=\"2\""}}},
      {"nvlink-incomplete", kError, 6, {{" count=\"4\"", ""}}, {"nvlink-asymmetric"}},
      {"nvlink-incomplete", kError, 6, {{" tclass=\"0x030200\"", ""}}},
      {"nvlink-count", kWarning, 6, {{"count=\"4\"", "count=\"0\""}}, {"nvlink-asymmetric"}},
      {"nvlink-tclass",
       kWarning,
       6,
       {{kLink0, R"(<nvlink target="0000:99:00.0" count="4" tclass="0x060400"/>)"}},
       {"nvlink-asymmetric"}},
      {"nvlink-tclass",
       kWarning,
       6,
       {{kLink0, edited(kLink0, {{"0x030200", "0x068000"}})}},
       {"nvlink-asymmetric"}},
      {"nvlink-to-self", kWarning, 6, {{"0000:81:00.0", "0000:41:00.0"}}, {"nvlink-asymmetric"}},
      {"nvlink-target-missing", kWarning, 6, {{"0000:81:00.0", "0000:99:00.0"}}, {"nvlink-asymmetric"}},
      {"nvlink-asymmetric", kWarning, 20, {{"count=\"4\"", "count=\"2\""}}},
      {"c2c-incomplete", kError, 6, {{kLink0, kLink0 + "<c2c bw=\"44712\"/>"}}},
  };
}

inline std::vector<Trap> netTraps() {
  return {
      {"net-without-dev", kNote, 11, {{"\"mlx5_0\" dev=\"0\"", "\"mlx5_0\""}}},
      {"net-name", kWarning, 11, {{" name=\"mlx5_0\"", ""}}},
      {"net-speed", kNote, 11, {{" speed=\"400000\"", ""}, {" speed=\"400000\"", ""}}},
      {"net-speed", kWarning, 11, {{" speed=\"400000\"", " speed=\"-1\""}}},
      {"net-speed", kWarning, 11, {{" speed=\"400000\"", " speed=\"400\""}}},
      {"net-gdr", kNote, 11, {{"guid=\"0xa0\" gdr=\"1\"", "guid=\"0xa0\""}}},
      {"net-incomplete", kNote, 11, {{" port=\"1\" guid=\"0xa0\"", ""}}},
      {"duplicate-net-dev", kWarning, 25, {{"\"mlx5_1\" dev=\"1\"", "\"mlx5_1\" dev=\"0\""}}},
      {"duplicate-net-dev", kError, 25, {{"\"mlx5_1\" dev=\"1\"", "\"mlx5_0\" dev=\"0\""}}},
      {"duplicate-net-name", kError, 25, {{"\"mlx5_1\" dev=\"1\"", "\"mlx5_0\" dev=\"1\""}}},
      {"second-nic", kError, 12, {{"</nic>", "</nic><nic/>"}}},
      {"nic-on-bridge", kWarning, 10, {{"0x020700", "0x060000"}}},
      {"nics-merge",
       kNote,
       10,
       {{"<nic>",
         "<nic><net name=\"mlx5_2\" dev=\"2\" speed=\"400000\" port=\"2\" guid=\"0xa0\" gdr=\"1\"/>"}}},
      {"nics-merge",
       kNote,
       6,
       {{"    </pci>\n", "<pci busid=\"0000:42:00.1\" class=\"0x020700\" " + kWidth + "/></pci>"}},
       {},
       kPciOnly},
      {"host-without-nic",
       kError,
       16,
       {{"numaid=\"0\"", "host_hash=\"0x1\" numaid=\"0\""}, {"<net name=\"mlx5_1\"", "<led name=\"mlx5_1\""}},
       {"several-hosts", "nvlink-target-missing", "unknown-tag"}},
      {"virtual-nic", kNote, 2, {{"modelid=\"1\">", "modelid=\"1\"><nic/>"}}},
      {"virtual-nic-shared",
       kError,
       29,
       {{"modelid=\"1\">", "modelid=\"1\"><nic/>"}, {"  </cpu>\n</system>", "<nic/></cpu></system>"}},
       {"virtual-nic"}},
  };
}

inline std::vector<Trap> allTraps() {
  std::vector<Trap> traps;
  for (auto* group : {tagTraps, cpuTraps, pciTraps, gpuTraps, netTraps})
    for (Trap& trap : group()) traps.push_back(std::move(trap));
  return traps;
}

}  // namespace railwise::topo::test
