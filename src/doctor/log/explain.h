// What a warning or an error line means, in words, and what to do. Pure; thread-safe.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "doctor/log/job.h"

namespace railwise::doctor {

// A line of NCCL WARN. Every one has an answer; the check of what nobody knows is "unknown-warning".
Explanation explainWarning(std::string_view source, std::string_view text);

// A line that is not of NCCL's form: PyTorch's watchdog, an exception; or NCCL's words without what NCCL puts
// before them (PyTorch's "Last error:", the output of `railwise perf`). Null: no error.
std::optional<Explanation> explainOther(std::string_view text);

// The meaning of ncclResult_t: "ncclRemoteError". "": not an error.
std::string_view resultName(int result);

}  // namespace railwise::doctor
