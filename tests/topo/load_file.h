// The machine of a topology file, as loadMachine() opens it. For tests that do not link the sources of trees.
#pragma once

#include <string>

#include "topo/machine/machine.h"

namespace railwise::topo::test {

inline Outcome<Machine> loadFile(const std::string& path, const Settings& settings,
                                 const Detection& detection = {}) {
  auto document = readXmlFile(path, {.max_nodes = detection.any_size ? 0 : kXmlMaxNodes});
  if (!document.ok()) return document.failure();
  return loadDocument(std::move(*document), settings, detection, path.substr(path.rfind('/') + 1));
}

}  // namespace railwise::topo::test
