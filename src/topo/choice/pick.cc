#include "topo/choice/pick.h"

#include <algorithm>
#include <cmath>

#include "base/text/json.h"
#include "gpu/choose/fitness.h"
#include "gpu/choose/ring.h"
#include "topo/explain/describe.h"
#include "topo/explain/gpu_topology.h"

namespace railwise::topo {
namespace {

// The rows whose GPU has memory of a process, or a MIG instance with one, as the vendor's library says.
std::vector<int> occupiedRows(const Machine& machine, const GpuTable& table) {
  std::vector<int> rows;
  const gpu::GpuTopology topology = gpuTopology(machine);
  for (std::size_t row = 0; row < table.rows.size(); ++row) {
    const auto device = std::find_if(topology.gpus.begin(), topology.gpus.end(), [&](const gpu::Device& one) {
      return one.rank == table.rows[row].rank();
    });
    if (device == topology.gpus.end()) continue;
    const bool used = std::any_of(topology.gpus.begin(), topology.gpus.end(), [&](const gpu::Device& one) {
      return (one.index == device->index || one.parent == device->index) && one.processes.value_or(0) > 0;
    });
    if (used) rows.push_back(static_cast<int>(row));
  }
  return rows;
}

void writeSet(JsonWriter& json, const Machine& machine, const GpuTable& table, const gpu::GpuSet& set) {
  const auto row = [&](int gpu) -> const GpuRow& { return table.rows[static_cast<std::size_t>(gpu)]; };
  json.key("gpus").beginRow();
  for (const int gpu : set.gpus) json.value(row(gpu).rank());
  json.endRow().key("busids").beginRow();
  for (const int gpu : set.gpus) json.value(row(gpu).busid);
  json.endRow().key("slowest_pair_gb_per_s");
  set.gpus.size() < 2 ? json.null() : json.value(static_cast<double>(set.score.slowest_pair_mbps) / 1000);
  json.key("slowest_pair_type");
  set.gpus.size() < 2 ? json.null() : json.value(pathTypeName(slowestType(table, set)));
  json.key("all_pairs_gb_per_s").value(static_cast<double>(set.score.all_pairs_mbps) / 1000);
  json.key("gpus_with_nic").value(set.score.with_nic).key("nics").beginArray();
  for (std::size_t i = 0; i < set.gpus.size(); ++i) {
    if (set.nics[i] < 0) continue;
    const NearNic& nic = nicOf(table, set.gpus[i], set.nics[i]);
    json.beginInlineObject()
        .key("gpu")
        .value(row(set.gpus[i]).rank())
        .key("nic")
        .value(netName(*machine.graph, nic.net));
    json.key("type")
        .value(pathTypeName(nic.type))
        .key("gb_per_s")
        .value(static_cast<float>(nic.gb_per_s))
        .endInlineObject();
  }
  json.endArray();
}

}  // namespace

PathType slowestType(const GpuTable& table, const gpu::GpuSet& set) {
  auto type = PathType::kLoc;
  for (const int a : set.gpus)
    for (const int b : set.gpus) {
      const PairLink& link = table.pair(static_cast<std::size_t>(a), static_cast<std::size_t>(b));
      if (a != b && std::llround(link.gb_per_s * 1000) == set.score.slowest_pair_mbps)
        type = std::max(type, link.type);
    }
  return type;
}

const NearNic& nicOf(const GpuTable& table, int row, int net) {
  const auto& nics = table.nics[static_cast<std::size_t>(row)];
  return *std::find_if(nics.begin(), nics.end(), [&](const NearNic& nic) { return nic.net == net; });
}

Outcome<PickQuestion> makePickQuestion(const Machine& machine, const GpuTable& table,
                                       const PickWishes& wishes) {
  std::vector<int> nets;
  if (!wishes.nic.empty()) {
    auto named = netsOf(*machine.graph, wishes.nic);
    if (!named.ok()) return Error{"nic: " + named.error()};
    nets = std::move(*named);
  }
  PickQuestion question{.choice = table.question(nets)};
  if (!wishes.of.empty()) {
    auto rows = rowsOf(table, wishes.of);
    if (!rows.ok()) return Error{"of: " + rows.error()};
    question.choice.allowed = std::move(*rows);
  }
  if (!wishes.exclude.empty()) {
    auto rows = rowsOf(table, wishes.exclude);
    if (!rows.ok()) return Error{"exclude: " + rows.error()};
    question.choice.excluded = std::move(*rows);
  }
  if (!wishes.occupied) question.choice.occupied = occupiedRows(machine, table);
  for (const int row : question.choice.occupied)
    question.left_out.push_back(table.rows[static_cast<std::size_t>(row)].rank());
  return question;
}

Outcome<Pick> pickGpus(const PickQuestion& question, int count) {
  const gpu::ChoiceQuestion& choice = question.choice;
  auto answer = gpu::chooseGpus(choice, count);
  if (!answer.ok()) {
    const std::string in_use = rangesText(question.left_out);
    return Error{answer.error() + (in_use.empty() ? "" : " (in use: " + in_use + ")")};
  }
  Pick pick{.answer = std::move(*answer), .left_out = question.left_out};
  pick.ring = gpu::ringOrder(choice.pair_gb_per_s, choice.gpus, pick.answer.best.gpus);
  pick.intra = gpu::intraFitness(choice.pair_gb_per_s, choice.gpus, pick.answer.best.gpus);
  return pick;
}

std::string pickJson(const Machine& machine, const GpuTable& table, const Pick& pick) {
  const gpu::ChoiceAnswer& answer = pick.answer;
  JsonWriter json;
  json.beginObject().key("schema").value("railwise-gpus-pick").key("schema_version").value(1);
  json.key("machine").value(machine.name);
  writeSet(json, machine, table, answer.best);
  json.key("ring").beginRow();
  for (const int row : pick.ring) json.value(table.rows[static_cast<std::size_t>(row)].rank());
  json.endRow().key("left_out").beginRow();
  for (const int rank : pick.left_out) json.value(rank);
  json.endRow().key("fitness_intra").value(pick.intra).key("exact").value(answer.exact);
  json.key("equally_good");
  answer.equally_good ? json.value(*answer.equally_good) : json.null();
  json.key("why").value(gpu::whyText(answer, table.ranks())).key("second");
  if (answer.second) {
    json.beginObject();
    writeSet(json, machine, table, *answer.second);
    json.endObject();
  } else {
    json.null();
  }
  json.endObject();
  return json.text();
}

}  // namespace railwise::topo
