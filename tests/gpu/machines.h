// Fake machines for the tests of gpu: a vendor's fake library that answers from a file in machines/.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "gpu/vendor.h"
#include "tests/ok.h"
#include "tests/setting.h"

namespace railwise::gpu::test {

// Long enough for a loaded machine. Tests of a library that hangs have their own.
constexpr Clock::duration kPatience = std::chrono::seconds(60);

using railwise::test::Setting;

using VendorMaker = std::unique_ptr<GpuVendor> (*)(const Config&);

// Asks `library` alone. `mode`: see the fakes.
inline GpuTopology readFake(VendorMaker make, const std::string& library, const std::string& machine,
                            const std::string& mode = "", Clock::duration limit = kPatience) {
  const Setting file("RAILWISE_FAKE_GPUS", FAKE_MACHINES "/" + machine);
  const Setting behaviour("RAILWISE_FAKE_GPU_MODE", mode);
  Config config;
  config.nvml_library = config.amd_smi_library = config.rocm_smi_library = library;
  std::vector<std::unique_ptr<GpuVendor>> vendors;
  vendors.push_back(make(config));
  Outcome<GpuTopology> topology = readGpus(limit, vendors);
  EXPECT_OK(topology);
  return topology.ok() ? *topology : GpuTopology{};
}

inline GpuTopology nvidia(const std::string& machine, const std::string& mode = "",
                          Clock::duration limit = kPatience) {
  return readFake(makeNvml, FAKE_NVML, machine, mode, limit);
}

// Through ROCm SMI. Tests of AMD SMI are in amd_smi_test.cc.
inline GpuTopology amd(const std::string& machine, const std::string& mode = "",
                       Clock::duration limit = kPatience) {
  return readFake(makeRocmSmi, FAKE_ROCM_SMI, machine, mode, limit);
}

inline std::vector<Link> linksFrom(const GpuTopology& topology, int from) {
  std::vector<Link> links;
  for (const Link& link : topology.links)
    if (link.from == from) links.push_back(link);
  return links;
}

inline const Link* linkBetween(const GpuTopology& topology, int from, int to) {
  for (const Link& link : topology.links)
    if (link.from == from && link.to == to) return &link;
  return nullptr;
}

inline std::string allRemarks(const GpuTopology& topology) {
  std::string text;
  for (const std::string& remark : topology.remarks) text += remark + "\n";
  return text;
}

}  // namespace railwise::gpu::test

// `remarks` contain `words`.
#define EXPECT_REMARK(topology, words)                                                  \
  EXPECT_NE(::railwise::gpu::test::allRemarks(topology).find(words), std::string::npos) \
      << ::railwise::gpu::test::allRemarks(topology)
#define EXPECT_NO_REMARK(topology) EXPECT_EQ(::railwise::gpu::test::allRemarks(topology), "")
