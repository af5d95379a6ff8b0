// Logs in the forms in which people have published them: releases, launchers, containers. Hosts are invented.
#include <gtest/gtest.h>

#include <fstream>

#include "doctor/log/ranks.h"
#include "doctor/log/read_job.h"
#include "doctor/log/reading/reader.h"
#include "tests/ok.h"

namespace railwise::doctor {
namespace {

TEST(PublishedLogs, SubjectAndFindings) {
  struct Case {
    const char *file, *subject, *checks, *worst;
  };
  const Case cases[] = {
      {"mpirun-socket-2.18.log", "2 ranks on 2 hosts, NCCL 2.18.5, network Socket", "socket-network",
       "the network is Socket, not RDMA"},
      {"torchrun-retry-2.21.log", "4 ranks on 2 hosts, NCCL 2.21.5, network IB",
       "completion-error completion-error watchdog framework-error",
       "first error of the job: completion with status 12, transport retry counter exceeded"},
      {"srun-missing-2.27.log", "6 of 8 ranks on 2 hosts, NCCL 2.27.7, network IB",
       "connection-refused missing-ranks init-incomplete", ""},
      {"kubernetes-init-2.30.json", "2 ranks on 2 hosts, NCCL 2.30.7, network Socket",
       "no-rdma-device plugin-init socket-network", ""},
      {"hpcx-differ-2.20.log", "4 ranks on 2 hosts, NCCL 2.19.3 and 2.20.5, network IB and IBext_v7",
       "differ-version differ-network differ-driver differ-settings gdr-some gdr-far unasked-plugin", ""}};
  for (const Case& each : cases) {
    SCOPED_TRACE(each.file);
    JobReader reader;
    reader.beginFile(each.file);
    reader.fileProblem(
        readLines(std::string(LOG_FILES "/") + each.file, [&](std::string_view line) { reader.line(line); }));
    const Job job = reader.take();
    const Findings findings = judged(job);
    EXPECT_EQ(logStyle(job, Ranks(job, 0)).subject, each.subject);
    EXPECT_EQ(checksOf(findings), each.checks);
    EXPECT_HAS(findings.all()[0].what, each.worst);
  }
}

}  // namespace
}  // namespace railwise::doctor
