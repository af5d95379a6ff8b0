// What every subcommand does before and after its work: it reads its command line, writes its output, and
// prints notes.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/options/help_page.h"
#include "cli/options/options.h"

namespace railwise::cli {

// In place of a number of arguments: the options end where another command begins, and Arguments::rest has
// it.
inline constexpr std::size_t kRunsRest = static_cast<std::size_t>(-1);

// Parses the command line, and handles --help and mistakes. Null: the caller must return *status. The help
// text consists of `help`, the options, and `after_options`.
std::optional<Arguments> parseOrLeave(const char* command, const std::vector<Option>& table, Args args,
                                      const std::string& help, std::size_t max_positional, int* status,
                                      const std::string& after_options = "");

// Writes a text to stdout, or to the file `path` if it is not empty. The file is written beside its place and
// renamed, so that a failure leaves what was there. Returns the exit status.
int writeOutput(const char* command, const std::string& path, const std::string& text);

// In which form, and to where, a command that answers about a machine writes its answer.
struct Output {
  std::string format;  // one of the formats that addOutputOptions() was given
  std::string file;    // "": stdout

  bool is(std::string_view name) const { return format == name; }
  bool json() const { return is("json"); }
};
Option outputOption(std::string* file);  // -o/--output
// Adds -f/--format, -j/--json and -o/--output. The first of `formats` is the default.
void addOutputOptions(std::vector<Option>& table, Output& output,
                      std::vector<std::string> formats = {"text", "json"});
int writeOutput(const char* command, const Output& output, const std::string& text);

// The last thing that a command does: prints an error if something that was printed on stdout is lost.
// Returns `status`, or kExitFailed if it was kExitOk.
int finishOutput(int status);

// Prints notes for people on stderr, one per line: "railwise: command: note: ...".
void sayNotes(const char* command, const std::vector<std::string>& notes);

// A command that consists of subcommands, such as `railwise topo`.

// Runs the subcommand that args[0] names. --help lists the subcommands, with `last` as the last line. If
// there is no such subcommand, prints which ones exist and which one was perhaps meant, and returns
// kExitUsage. `group` is the command's name for messages, e.g. "topo".
int runSubcommand(const char* group, std::span<const Subcommand> subcommands, const char* last, Args args);

// What a command may do with its standard output: colours, and how wide its lines are.

enum class ColorChoice { kAuto, kAlways, kNever };

// Adds --color auto|always|never.
void addColorOption(std::vector<Option>& table, ColorChoice& choice);

// Whether to write colours. kAuto: on a terminal, unless NO_COLOR is set (no-color.org) or TERM is "dumb".
bool outputHasColor(ColorChoice choice);

// `text` with each line in the style that `style_of` gives it: an escape sequence such as "\033[33m", or "".
std::string paintedLines(std::string_view text, const std::function<const char*(std::string_view)>& style_of);
inline constexpr const char* kBold = "\033[1m";
inline constexpr const char* kYellow = "\033[33m";
inline constexpr const char* kRed = "\033[31m";
// What is wrong in colours, for doctor, topo lint and stuck: errors in red, warnings in yellow.
std::string paintedFindings(std::string_view text);

// The columns of the terminal that an output to `file` ("": stdout) goes to. 0: it goes to none, or the
// terminal does not tell.
std::size_t terminalColumns(const std::string& file);
// The columns of lines of such an output: of the terminal between 40 and 100 (longer lines are hard to read),
// else 80.
std::size_t outputColumns(const std::string& file);

}  // namespace railwise::cli
