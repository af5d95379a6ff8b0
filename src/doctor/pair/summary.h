// The results of the pair test as tables for people and as JSON. Pure; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "base/text/json.h"
#include "doctor/finding.h"
#include "doctor/pair/judge.h"
#include "doctor/pair/measuring/conduct.h"

namespace railwise::topo {
struct Machine;
}

namespace railwise::doctor::pair {

// What was measured, how, and what was not.
ReportStyle reportStyle(const Results& results, const MeasureOptions& options);

// Two hosts: a line for each NIC pair. More: what each host sent to each other host.
std::string tablesText(const Results& results, const Judgement& judgement);

// One document: the report (doctor/finding.h), hosts with their NICs, NIC pairs, the matrix of the hosts,
// all_reduce.
std::string pairJson(const Results& results, const Judgement& judgement, const MeasureOptions& options);

// A cell of a table, and how it is coloured on the page.
struct TableCell {
  std::string text;
  Health health = Health::kSkipped;
};
struct Table {
  std::string title;
  std::vector<std::string> header;
  std::vector<std::vector<TableCell>> rows;
};
Table railTable(const Results& results, const Judgement& judgement, const Match& match);
Table hostTable(const Results& results, const Judgement& judgement);
std::vector<Match> matchesOf(const Results& results);
// "all_reduce: ...": the one limit, what was measured, and what NCCL's rings get of the NICs.
std::string allReduceText(const Results& results);

// A page: one HTML file without a script that needs nothing else.
std::string pageHtml(const Results& results, const Judgement& judgement, const MeasureOptions& options);

// A ring of NCCL's enters and leaves a host through the NIC of each channel, so all_reduce between hosts
// cannot be faster than the sum over the NICs that the channels use, each with what its port and its path to
// the GPU carry; nor than what one GPU sends to the next inside the host.
AllReduceModel allReduceModel(const topo::Machine& machine);

// What `railwise topo expect` says of `hosts` machines.
NcclModel ncclModel(const topo::Machine& machine, int hosts);

}  // namespace railwise::doctor::pair
