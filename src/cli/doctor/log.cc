// railwise doctor --log: reads the logs of all ranks, and says what is wrong.
#include "base/json.h"
#include "cli/doctor/commands.h"
#include "cli/options/command_line.h"
#include "cli/options/message.h"
#include "doctor/log/judge.h"
#include "doctor/log/ranks.h"
#include "doctor/log/reader.h"
#include "doctor/log/summary.h"
#include "doctor/log/text_file.h"

namespace railwise::cli {
namespace {

constexpr const char* kDoctorLog = "doctor --log";
constexpr std::size_t kMostLogs = 1UL << 20;
constexpr int kMostRanks = 1 << 24;

constexpr const char* kDoctorLogHelp =
    "usage: railwise doctor --log FILE... [--json] [--ranks N]\n\n"
    "Reads what NCCL has logged (NCCL_DEBUG=INFO, 2.13 to 2.32), of one rank or of all, in one file or many, "
    "with what\n"
    "mpirun, srun, torchrun or a container put before the lines; gzip too, and - is standard input. Says "
    "which network,\n"
    "plugin and NICs the ranks use and why not others, which ranks differ or are missing, the first error, "
    "and what the\n"
    "warnings mean. To log: NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,ENV,NET,GRAPH "
    "NCCL_DEBUG_FILE=/shared/nccl.%h.%p.log\n"
    "Exit status: 0 fine; 1 warnings; 2 errors, or a mistake on the command line.\n\n";

std::string jsonText(const doctor::Findings& findings, const doctor::ReportStyle& style,
                     const doctor::Job& job, const doctor::Ranks& ranks) {
  JsonWriter json;
  json.beginObject();
  json.key("schema").value("railwise-doctor-log");
  json.key("schema_version").value(1);
  json.key("subject").value(style.subject);
  doctor::writeReportJson(json, findings, style);
  doctor::writeJobJson(json, job, ranks);
  json.endObject();
  return json.text() + "\n";
}

}  // namespace

int doctorLogCommand(Args args) {
  bool json = false;
  int expected = 0;
  const std::vector<Option> table = {
      flagOption('j', "json", &json, "JSON: the findings, and what each rank says"),
      intOption(0, "ranks", &expected, 1, kMostRanks,
                "how many ranks the job has, where the logs do not say")};
  int status = kExitOk;
  const auto arguments = parseOrLeave(kDoctorLog, table, args, kDoctorLogHelp, kMostLogs, &status);
  if (!arguments) return status;
  if (arguments->positional.empty())
    return say("%s: which FILEs? With NCCL_DEBUG=INFO NCCL_DEBUG_FILE=/shared/nccl.%%h.%%p.log each rank "
               "writes "
               "one",
               kDoctorLog),
           kExitUsage;
  doctor::JobReader reader;
  for (const std::string& file : arguments->positional) {
    reader.beginFile(file == "-" ? "standard input" : file);
    reader.fileProblem(doctor::readLines(file, [&](std::string_view line) { reader.line(line); }));
  }
  const doctor::Job job = reader.take();
  const doctor::Ranks ranks(job, expected);
  const doctor::Findings findings = judgeJob(job, ranks);
  const doctor::ReportStyle style = logStyle(job, ranks);
  const int written =
      writeOutput(kDoctorLog, "", json ? jsonText(findings, style, job, ranks) : reportText(findings, style));
  return written != kExitOk ? kExitUsage : findings.exitStatus();
}

}  // namespace railwise::cli
