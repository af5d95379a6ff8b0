#include <algorithm>
#include <span>

#include "doctor/log/judging/known_line.h"
#include "doctor/log/reading/line.h"

namespace railwise::doctor {
namespace {

constexpr std::string_view kRailwise = "NET/Railwise : ";

bool has(std::string_view text, std::string_view words) { return text.find(words) != std::string_view::npos; }

// Is the source one of "nvls|mnnvl"? A part stands at the beginning of a folder's or a file's name.
bool isOfFiles(std::string_view source, std::string_view files) {
  const std::string_view one = firstWord(files, "|");
  for (std::size_t at = source.find(one); at != std::string_view::npos; at = source.find(one, at + 1))
    if (at == 0 || source[at - 1] == '/') return true;
  return one.size() < files.size() && isOfFiles(source, files.substr(one.size() + 1));
}

const KnownLine* find(std::span<const KnownLine> lines, std::string_view text, std::string_view source = "") {
  const auto found = std::ranges::find_if(lines, [&](const KnownLine& line) {
    return hasWords(text, line.words) && (*line.files == '\0' || isOfFiles(source, line.files));
  });
  return found == lines.end() ? nullptr : &*found;
}

// The sentence in which NCCL itself says what to do: "Set NCCL_X=1 to ...", "usually caused by ...". "":
// none.
std::string ownRemedy(std::string_view text) {
  std::size_t first = std::string_view::npos;
  for (const std::string_view words :
       {"Set NCCL", "set NCCL", "usually caused", "Please ", "please ", "Check ", "check that", "check the",
        "Try ", "try ", "Verify ", "verify ", "pdate ", "pgrade ", "Consider ", "Use NCCL", "Disable ",
        "ecompile"}) {
    first = std::min(first, text.find(words));
  }
  if (first == std::string_view::npos) return "";
  const std::size_t stop = text.substr(0, first).rfind(". ");
  return std::string(text.substr(stop == std::string_view::npos ? 0 : stop + 2));
}

Explanation explanationOf(const KnownLine& line) {
  return {line.check, line.kind, line.what, line.why, line.fix};
}

// "status=12" (2.18 to 2.29), "status=IBV_WC_RETRY_EXC_ERR(12)" (2.30), "with error 12" (to 2.17).
int statusOf(std::string_view text) {
  const std::string_view status = after(text, "status=");
  if (status.data() == nullptr) return numberAfter(text, "with error ");
  const int number = leadingNumber(status);
  return number >= 0 ? number : numberAfter(firstWord(status), "(");
}

std::string vendorText(std::string_view text) {
  int vendor = numberAfter(text, "vendor err ");
  if (vendor < 0) vendor = numberAfter(text, "vendor_err=");
  switch (vendor) {
    case 129:
      return " (vendor error 129: no acknowledgement came)";
    case 130:
    case 135:
      return " (vendor error " + std::to_string(vendor) + ": the peer is not ready)";
    case 136:
      return " (vendor error 136: the peer refuses the access)";
    case 249:
      return " (vendor error 249: flushed)";
    default:
      return vendor > 0 ? " (vendor error " + std::to_string(vendor) + ")" : "";
  }
}

Explanation explainCompletion(std::string_view text) {
  const int status = statusOf(text);
  const KnownStatus* const known = knownStatus(status);
  Explanation explanation;
  explanation.check = "completion-error";
  explanation.what = "completion with status " + std::to_string(status);
  if (known != nullptr) {
    explanation.kind = known->kind;
    explanation.what += std::string(", ") + known->name;
    explanation.why = known->why + vendorText(text);
    explanation.fix = known->fix;
  } else {
    explanation.why = "The NIC reports an error" + vendorText(text) + ".";
    explanation.fix = "dmesg | grep -i mlx5";
  }
  return explanation;
}

Explanation explainRailwise(std::string_view text) {
  const KnownLine* const known = find(knownRailwiseWarnings(), text);
  Explanation explanation =
      known != nullptr ? explanationOf(*known)
                       : Explanation{"railwise-warning", kCause, "Railwise warns", "The line says why.", ""};
  if (explanation.fix.empty()) explanation.fix = "as Railwise says: " + std::string(text);
  return explanation;
}

// NCCL's words, which somebody else repeats.
std::optional<Explanation> explainRepeated(std::string_view text) {
  if (const std::size_t at = text.find(kRailwise); at != std::string_view::npos) {
    const std::string_view words = text.substr(at + kRailwise.size());
    if (find(knownRailwiseWarnings(), words) == nullptr) return std::nullopt;
    return explainRailwise(words);
  }
  if (has(text, "Got completion ") && statusOf(text) > 0) return explainCompletion(text);
  if (has(text, "transport retry counter exceeded")) return explainCompletion("status=12");
  // NCCL's name for ncclUnhandledCudaError: it is no warning, and names no call.
  if (has(text, "Call to CUDA function failed")) return std::nullopt;
  for (const std::string_view begin : {"NET/", "Call to ", "Error: network "}) {
    const std::size_t at = text.find(begin);
    if (at == std::string_view::npos || (at > 0 && text[at - 1] != ' ')) continue;
    if (const KnownLine* const known = find(knownNcclWarnings(), text.substr(at)); known != nullptr)
      return explanationOf(*known);
  }
  return std::nullopt;
}

// "Test CUDA failure common.cu:9 'x'" of nccl-tests and "CUDA error: x" of PyTorch, as NCCL would write it.
// "": another line.
std::string cudaFailure(std::string_view text) {
  std::string_view words = after(text, "CUDA error: ");
  if (const auto test = after(text, "Test CUDA failure "); test.data() != nullptr)
    words = firstWord(after(test, "'"), "'");
  return words.data() == nullptr ? "" : "Cuda failure '" + std::string(words) + "'";
}

}  // namespace

bool hasWords(std::string_view text, std::string_view words) {
  const std::string_view one = firstWord(words, "|");
  bool all = true;
  for (std::string_view rest = one; all;) {
    const std::string_view part = firstWord(rest, "&");
    all = has(text, part);
    if (part.size() == rest.size()) break;
    rest = rest.substr(part.size() + 1);
  }
  return all || (one.size() < words.size() && hasWords(text, words.substr(one.size() + 1)));
}

int completionStatus(std::string_view text) { return statusOf(text); }

Explanation explainWarning(std::string_view source, std::string_view text) {
  if (text.starts_with(kRailwise)) return explainRailwise(text.substr(kRailwise.size()));
  if (has(text, "Got completion ")) return explainCompletion(text);
  if (const KnownLine* const known = find(knownNcclWarnings(), text, source); known != nullptr) {
    Explanation explanation = explanationOf(*known);
    if (const std::string remedy = known->own_remedy ? ownRemedy(text) : ""; !remedy.empty())
      explanation.fix = "as NCCL says: " + remedy + (explanation.fix.empty() ? "" : "\n" + explanation.fix);
    return explanation;
  }
  const std::size_t tree = source.rfind("/src/");  // the path of who built it
  const std::string_view file = firstWord(source.substr(tree == std::string_view::npos ? 0 : tree + 1), ":");
  return {.check = "unknown-warning",
          .what = "NCCL warns, and this program does not know the warning" +
                  (file.empty() ? std::string() : " of " + std::string(file)),
          .why = "The line says what happened; NCCL warns as a rule only of errors.",
          .fix = "search for the words of the line at https://github.com/NVIDIA/nccl/issues"};
}

std::optional<Explanation> explainOther(std::string_view text) {
  if (const std::string failure = cudaFailure(text); !failure.empty()) return explainWarning("", failure);
  const KnownLine* const known = find(knownOtherLines(), text);
  if (known == nullptr || known->kind == kConsequence) {
    // A line of PyTorch may have the reason too.
    if (std::optional<Explanation> repeated = explainRepeated(text); repeated || known == nullptr)
      return repeated;
  }
  Explanation explanation = explanationOf(*known);
  const std::string_view work = after(text, "WorkNCCL(");
  if (explanation.check == "watchdog" && work.data() != nullptr) {
    const std::string_view operation = firstWord(after(work, "OpType="), ",)");
    if (!operation.empty()) explanation.what += ": " + std::string(operation);
  }
  return explanation;
}

Explanation explainException(std::string_view text) {
  const std::string_view name = firstWord(text, ":");
  const std::string type(name.substr(name.rfind('.') + 1));
  // These tell that another process or a person ended the program, or a connection to another process broke.
  constexpr std::string_view kPassedOn =
      "KeyboardInterrupt|SystemExit|SignalException|ProcessExitedException|ProcessRaisedException|"
      "CalledProcessError|BrokenPipeError|ConnectionResetError|DistBackendError|DistNetworkError|"
      "DistStoreError|RendezvousClosedError|ActorDiedError|RayActorError|WorkerCrashedError|ee root cause "
      "above|DEADLINE_EXCEEDED|NCCL|onnection closed by peer|onnection reset by peer";
  if (hasWords(text, kPassedOn))
    return {"framework-error", kConsequence, "a rank ended with " + type,
            "As a rule another rank, the launcher or a person ended first.", kLookAtFirst};
  return {
      "program-error", kCause, "the program raised " + type,
      "It is an exception of Python, neither of NCCL nor of the network. The other ranks then wait for this "
      "one, or lose their connections to it.",
      "look at the program: the traceback that ends with the line names the call"};
}

std::string_view resultName(int result) {
  static constexpr std::string_view kNames[] = {"",
                                                "ncclUnhandledCudaError",
                                                "ncclSystemError",
                                                "ncclInternalError",
                                                "ncclInvalidArgument",
                                                "ncclInvalidUsage",
                                                "ncclRemoteError"};
  return result > 0 && result < static_cast<int>(std::size(kNames)) ? kNames[result] : "";
}

}  // namespace railwise::doctor
