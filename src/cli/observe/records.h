// Which records a command reads: an option for the folder, and process numbers on the command line.
#pragma once

#include <string>
#include <vector>

#include "base/outcome.h"
#include "cli/options/options.h"
#include "record/reader.h"

namespace railwise::cli {

// --dir FOLDER: where the records are. Without it: RAILWISE_METRICS_DIR, or /dev/shm.
Option recordFolderOption(std::string* folder);
// The folder itself, from what the option left.
std::string chosenRecordFolder(const std::string& chosen);

// Reads the records of the user who runs the command in `folder` (as recordFolderOption() left it): of
// `pids`, or all where there are none. Records of processes that are gone are left out unless `gone`, or
// unless a pid names one. Also removes what is older than RAILWISE_METRICS_KEEP. `notes` receives a line for
// each record that cannot be read. The error: a pid has no record.
Outcome<std::vector<record::Snapshot>> readRecords(const std::string& folder,
                                                   const std::vector<std::string>& pids, bool gone,
                                                   std::vector<std::string>* notes);

// The records of the living processes of all users.
std::vector<record::Snapshot> readRecordsOfAll(const std::string& folder, std::vector<std::string>* notes);

}  // namespace railwise::cli
