// Logs in the forms in which people have published them: releases, launchers, containers. Hosts are invented.
#include <gtest/gtest.h>

#include <fstream>

#include "doctor/log/ranks.h"
#include "doctor/log/read_job.h"
#include "doctor/log/reading/reader.h"

namespace railwise::doctor {
namespace {

struct Report {
  std::string subject, checks, worst;
};

Report reportOf(const std::string& name) {
  JobReader reader;
  reader.beginFile(name);
  reader.fileProblem(
      readLines(std::string(LOG_FILES) + "/" + name, [&](std::string_view line) { reader.line(line); }));
  const Job job = reader.take();
  const Ranks ranks(job, 0);
  const Findings findings = judgeJob(job, ranks);
  const std::string worst = findings.empty() ? "" : findings.all()[0].what;
  return {logStyle(job, ranks).subject, checksOf(findings), worst};
}

TEST(PublishedLogs, MpirunAndSocket) {
  const Report report = reportOf("mpirun-socket-2.18.log");
  EXPECT_EQ(report.subject, "2 ranks on 2 hosts, NCCL 2.18.5, network Socket");
  EXPECT_EQ(report.checks, "socket-network");
}

TEST(PublishedLogs, TorchrunAndALostPath) {
  const Report report = reportOf("torchrun-retry-2.21.log");
  EXPECT_EQ(report.subject, "4 ranks on 2 hosts, NCCL 2.21.5, network IB");
  EXPECT_EQ(report.checks, "completion-error completion-error watchdog framework-error");
  EXPECT_EQ(report.worst,
            "first error of the job: completion with status 12, transport retry counter exceeded");
}

TEST(PublishedLogs, SrunAndMissingRanks) {
  const Report report = reportOf("srun-missing-2.27.log");
  EXPECT_EQ(report.subject, "6 of 8 ranks on 2 hosts, NCCL 2.27.7, network IB");
  EXPECT_EQ(report.checks, "connection-refused missing-ranks init-incomplete");
}

TEST(PublishedLogs, KubernetesAndAPluginThatCannotStart) {
  const Report report = reportOf("kubernetes-init-2.30.json");
  EXPECT_EQ(report.subject, "2 ranks on 2 hosts, NCCL 2.30.7, network Socket");
  EXPECT_EQ(report.checks, "no-rdma-device plugin-init socket-network");
}

TEST(PublishedLogs, HpcxOnOneOfTwoNodes) {
  const Report report = reportOf("hpcx-differ-2.20.log");
  EXPECT_EQ(report.subject, "4 ranks on 2 hosts, NCCL 2.19.3 and 2.20.5, network IB and IBext_v7");
  EXPECT_EQ(report.checks,
            "differ-version differ-network differ-driver differ-settings gdr-some gdr-far unasked-plugin");
}

}  // namespace
}  // namespace railwise::doctor
