// Ends and results for the tests of the pair test, made by hand.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "doctor/pair/judge.h"
#include "doctor/pair/measuring/plan.h"
#include "tests/doctor/found.h"

namespace railwise::doctor::pair::test {

inline NicFacts makeNic(const std::string& device) {
  NicFacts nic;
  nic.device = device;
  nic.active = true;
  nic.link = LinkKind::kInfiniBand;
  nic.speed_mbps = 400'000;
  nic.mtu_bytes = 4096;
  nic.lid = 7;
  nic.pcie_mbps = 504'123;
  nic.pcie = "32 GT/s x16";
  nic.numa = 1;
  nic.gids = {{.value = {{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 1}}}};
  return nic;
}

// On RoCE, with one GID: an IPv4 address (10.0.0.`last`) of RoCE v`version`.
inline NicFacts makeRoceNic(const std::string& device, uint8_t last, uint8_t version = 2, uint8_t index = 3) {
  NicFacts nic = makeNic(device);
  nic.link = LinkKind::kRoce;
  nic.gids = {{index, {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, last}}, version}};
  return nic;
}

inline EndFacts makeEnd(const std::string& host, int nics) {
  EndFacts end;
  end.host = host;
  for (int i = 0; i < nics; ++i) end.nics.push_back(makeNic("mlx5_" + std::to_string(i)));
  return end;
}

inline Half makeHalf(double gbytes) {
  return {.reach = Reach::kAll,
          .wrong_data = false,
          .error = "",
          .alone_gbytes = gbytes,
          .together_gbytes = gbytes,
          .latency_us = 2};
}

// Hosts "A", "B" ... with all their rails in all pairs of hosts, each at 48 GB/s.
inline Results makeResults(int hosts, int nics) {
  Results results;
  for (int i = 0; i < hosts; ++i)
    results.ends.push_back(makeEnd(std::string(1, static_cast<char>('A' + i)), nics));
  for (std::size_t a = 0; a < results.ends.size(); ++a) {
    for (std::size_t b = a + 1; b < results.ends.size(); ++b) {
      for (std::size_t nic = 0; nic < static_cast<std::size_t>(nics); ++nic)
        results.pairs.push_back({{.nics = {nic, nic}}, {a, b}, {makeHalf(48), makeHalf(48)}});
    }
  }
  return results;
}

// Does something with every pair of the NIC, or with every pair of the host if `nic` is negative.
template <typename Change>
void changePairsOf(Results& results, std::size_t end, int nic, Change&& change) {
  for (PairResult& pair : results.pairs) {
    for (const std::size_t side : kSides) {
      const bool its = nic < 0 || pair.nics[side] == static_cast<std::size_t>(nic);
      if (pair.match[side] == end && its) change(pair);
    }
  }
}

inline const Finding* find(const Judgement& judgement, const std::string& check) {
  return findingOf(judgement.findings, check);
}
inline Finding found(const Judgement& judgement, const std::string& check,
                     const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  return doctor::found(judgement.findings, check, file, line);
}
// Without one: a failure, and nothing in the finding.
inline Finding found(const Results& results, const std::string& check) {
  const Judgement judgement = judge(results);
  const Finding* const finding = find(judgement, check);
  EXPECT_NE(finding, nullptr) << check;
  return finding == nullptr ? Finding{.seen = {{}}} : *finding;
}

}  // namespace railwise::doctor::pair::test
