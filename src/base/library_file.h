// Whether the dynamic linker can load a file, by the file's headers. Nothing is loaded. Thread-safe.
#pragma once

#include <cstdint>
#include <string>

namespace railwise {

enum class LibraryFile : uint8_t {
  kLoadable,      // nothing speaks against it
  kNotThere,      // or not to be read
  kNoLibrary,     // a file of another kind
  kOtherMachine,  // the linker looks for the name in its next folder
  kCutOff,        // dlopen() ends the process with SIGBUS: it reads what should be behind the file's end
};
LibraryFile libraryFileAt(const std::string& path);
// "it is cut off". "": it is loadable, or not there.
const char* flawOf(LibraryFile file);

}  // namespace railwise
