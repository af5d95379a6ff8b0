#include "doctor/log/reading/text_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

namespace railwise::doctor {
namespace {

constexpr std::size_t kLongestLine = 64UL << 10;
constexpr unsigned kChunk = 256U << 10;

// Cuts what comes in chunks into lines.
class Lines {
 public:
  explicit Lines(const std::function<void(std::string_view)>& take) : take_(take) {}

  void add(std::string_view chunk) {
    while (!chunk.empty()) {
      const std::size_t end = chunk.find('\n');
      const std::string_view part = chunk.substr(0, end);
      const bool whole = end != std::string_view::npos;
      if (whole && pending_.empty()) {
        take_(part.substr(0, kLongestLine));
      } else {
        pending_.append(part.substr(0, kLongestLine - std::min(kLongestLine, pending_.size())));
        if (whole) finish();
      }
      if (!whole) return;
      chunk.remove_prefix(end + 1);
    }
  }
  void finish() {
    if (!pending_.empty()) take_(pending_);
    pending_.clear();
  }

 private:
  const std::function<void(std::string_view)>& take_;
  std::string pending_;
};

struct CloseGzip {
  void operator()(gzFile_s* file) const { gzclose(file); }
};

}  // namespace

std::string readLines(const std::string& path, const std::function<void(std::string_view)>& take) {
  const int descriptor = path == "-" ? dup(STDIN_FILENO) : open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return std::strerror(errno);
  struct stat status = {};
  if (fstat(descriptor, &status) == 0 && S_ISDIR(status.st_mode)) {
    close(descriptor);
    return "it is a folder: name the files in it";
  }
  const std::unique_ptr<gzFile_s, CloseGzip> file(gzdopen(descriptor, "rb"));  // plain files too
  if (file == nullptr) {
    close(descriptor);
    return "no memory to read it";
  }
  gzbuffer(file.get(), kChunk);
  std::vector<char> buffer(kChunk);
  Lines lines(take);
  int got = 0;
  while ((got = gzread(file.get(), buffer.data(), kChunk)) > 0)
    lines.add({buffer.data(), static_cast<std::size_t>(got)});
  lines.finish();
  int error = Z_OK;
  const char* const text = gzerror(file.get(), &error);
  if (got >= 0 && error == Z_OK) return "";
  if (error == Z_ERRNO) return std::strerror(errno);
  if (error == Z_BUF_ERROR) return "the gzip file is cut off";
  return std::string("the gzip file is damaged: ") + text;
}

}  // namespace railwise::doctor
