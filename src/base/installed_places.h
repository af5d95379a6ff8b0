// Where the libraries lie that come with Railwise but not in a folder of the system's libraries. Any thread.
#pragma once

#include <string>
#include <vector>

namespace railwise {

// Where `name`, a file or a folder, may be, best first. In a library (the plugin): beside its file. In a
// program: beside the program, and in the library folders next to the program's own folder
// (/usr/bin/railwise: /usr/lib/NAME). Links are followed, so a link to the plugin leads to the plugin's
// place.
std::vector<std::string> installedPlaces(const std::string& name);

// The names that NCCL gives to dlopen() for an entry of NCCL_NET_PLUGIN, in order. Source: NCCL 2.30.7,
// plugin_open.cc.
std::vector<std::string> pluginFileNames(const std::string& entry);

// Where the pages of docs/ lie that come with this program: "/usr/share/doc/railwise-doctor/docs/"; "docs/"
// in a tree of sources.
std::string docsFolder();

}  // namespace railwise
