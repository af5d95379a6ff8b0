// What people paste beside logs: nvidia-smi topo -m, ibstat, ibv_devinfo, show_gids, lspci -vv, ethtool -S,
// NCCL's RAS, a kernel log. Each is known by the form of its lines, wherever they stand in a file.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/finding.h"

namespace railwise::doctor {

struct Pastes {
  std::vector<std::string> kinds;  // "matrix.txt: nvidia-smi topo -m, 4 GPUs and 3 NICs"
  std::vector<Finding> findings;
  std::vector<std::string> looked;
  std::vector<std::string> hidden;

  bool empty() const { return kinds.empty(); }
  // A finding, unless nothing was seen.
  void add(std::string check, Severity severity, std::string what, std::vector<Seen> seen, std::string why,
           std::string fix) {
    if (seen.empty()) return;
    findings.push_back(
        {std::move(check), severity, std::move(what), std::move(seen), std::move(why), std::move(fix)});
  }
};

// The output of one program. One thread at a time.
class Paste {
 public:
  virtual ~Paste() = default;
  // False: the line is none of its.
  virtual bool line(std::string_view text, const std::string& where) = 0;
  // Adds what it has read, if it was its program's output; `file`: where it stood.
  virtual void addTo(Pastes& pastes, const std::string& file) const = 0;
};
std::unique_ptr<Paste> gpuMatrix();  // nvidia-smi topo -m

class PasteReader {
 public:
  PasteReader();
  void beginFile(std::string name);
  void line(std::string_view text);
  // Ends the reading.
  Pastes take();

 private:
  void endFile();
  std::string file_;
  std::size_t line_ = 0;
  std::string buffer_;
  std::vector<std::unique_ptr<Paste>> readers_;
  Pastes pastes_;
};

// Does a line of NCCL's RAS name this process: "... process 76 on node sara"?
bool namesProcess(std::string_view line, std::string_view pid, std::string_view host);

// What a text holds, by itself.
Pastes readPastes(const std::string& name, std::string_view text);

}  // namespace railwise::doctor
