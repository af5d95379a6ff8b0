#include "topo/outputs/json_rows.h"
#include "topo/outputs/outputs.h"

namespace railwise::topo {

std::string pathsJson(const Machine& machine) {
  JsonWriter json;
  json.beginObject();
  json.key("machine").value(machine.name);
  json.key("nccl").value(ncclVersionName(machine.settings->nccl));
  writePathTables(json, *machine.paths);
  writeP2p(json, *machine.paths, false);
  writeGdr(json, *machine.paths, false);
  writeDomains(json, machine);
  json.endObject();
  return json.text();
}

}  // namespace railwise::topo
