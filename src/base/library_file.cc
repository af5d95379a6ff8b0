#include "base/library_file.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "base/descriptor.h"

namespace railwise {
namespace {

#if defined(__aarch64__)
constexpr uint16_t kThisMachine = EM_AARCH64;
#else
constexpr uint16_t kThisMachine = EM_X86_64;
#endif

// Is all there that the program header `index` maps?
bool isWhole(int fd, const Elf64_Ehdr& header, unsigned index, uint64_t bytes) {
  Elf64_Phdr segment;
  const auto at = static_cast<off_t>(header.e_phoff + uint64_t{index} * sizeof segment);
  if (pread(fd, &segment, sizeof segment, at) != static_cast<ssize_t>(sizeof segment)) return false;
  return segment.p_type != PT_LOAD ||
         (segment.p_offset <= bytes && segment.p_filesz <= bytes - segment.p_offset);
}

}  // namespace

LibraryFile libraryFileAt(const std::string& path) {
  const Descriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info = {};
  if (!fd.valid() || fstat(fd.get(), &info) != 0) return LibraryFile::kNotThere;
  Elf64_Ehdr header = {};
  const ssize_t read = pread(fd.get(), &header, sizeof header, 0);
  if (read < SELFMAG || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return LibraryFile::kNoLibrary;
  if (read < static_cast<ssize_t>(sizeof header)) return LibraryFile::kCutOff;
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != kThisMachine)
    return LibraryFile::kOtherMachine;
  if (header.e_type != ET_DYN) return LibraryFile::kNoLibrary;
  for (unsigned i = 0; i < header.e_phnum; ++i)
    if (!isWhole(fd.get(), header, i, static_cast<uint64_t>(info.st_size))) return LibraryFile::kCutOff;
  return LibraryFile::kLoadable;
}

const char* flawOf(LibraryFile file) {
  switch (file) {
    case LibraryFile::kNoLibrary:
      return "it is no shared library";
    case LibraryFile::kOtherMachine:
      return "it is for another kind of machine";
    case LibraryFile::kCutOff:
      return "it is cut off";
    case LibraryFile::kLoadable:
    case LibraryFile::kNotThere:
      break;
  }
  return "";
}

}  // namespace railwise
