#include <algorithm>
#include <string_view>
#include <vector>

#include "base/text/words.h"
#include "cli/help/pages.h"

#ifndef RAILWISE_VERSION
#error "the build defines RAILWISE_VERSION"
#endif

namespace railwise::cli {
namespace {

// Text as roff prints it, also at the beginning of a line.
std::string roffText(std::string_view text) {
  static constexpr std::pair<char, const char*> kEscapes[] = {{'\\', "\\e"},  {'-', "\\-"},   {'\'', "\\(aq"},
                                                              {'`', "\\(ga"}, {'^', "\\(ha"}, {'~', "\\(ti"}};
  std::string roff = !text.empty() && (text[0] == '.' || text[0] == '\'') ? "\\&" : "";
  for (const char c : text) {
    const auto* const escape = std::ranges::find(kEscapes, c, &std::pair<char, const char*>::first);
    escape != std::end(kEscapes) ? roff += escape->second : roff += c;
  }
  return roff;
}

std::string bold(std::string_view text) { return "\\fB" + roffText(text) + "\\fR"; }
std::string italic(std::string_view text) { return "\\fI" + roffText(text) + "\\fR"; }

// Paragraphs of the help: lines that begin with spaces stand as they are, all others are filled. What follows
// "Exit status:" goes into a section of its own.
struct Prose {
  std::string description;
  std::string exit_status;
};

void addParagraphs(std::string_view text, Prose& prose) {
  constexpr std::string_view kExit = "Exit status:";
  std::string* into = &prose.description;
  bool begins = true;  // the next line begins a paragraph
  bool as_is = false;
  const auto end_lines = [&] {
    if (as_is) *into += ".fi\n.RE\n";
    as_is = false;
  };
  for (std::string line : splitAt(text, '\n')) {
    if (line.empty()) {
      end_lines();
      begins = true;
      into = &prose.description;
      continue;
    }
    if (line.starts_with(kExit) || (into == &prose.exit_status && line.starts_with("docs/"))) {
      end_lines();
      const bool is_exit = line.starts_with(kExit);
      into = is_exit ? &prose.exit_status : &prose.description;
      if (is_exit) line.erase(0, kExit.size() + 1);
      begins = !is_exit;
    }
    if (line[0] == ' ' && into == &prose.description) {
      if (!as_is) *into += (into->empty() ? "" : ".PP\n") + std::string(".RS 2\n.nf\n");
      as_is = true;
      *into += roffText(line.substr(2)) + "\n";
      continue;
    }
    const bool was_as_is = as_is;
    end_lines();
    if ((begins || was_as_is) && !into->empty()) *into += ".PP\n";
    begins = false;
    *into += roffText(line.substr(line.find_first_not_of(' '))) + "\n";
  }
  end_lines();
}

// The intro without its usage lines.
std::string_view withoutUsage(std::string_view intro) {
  const auto end = intro.find("\n\n");
  return end == std::string_view::npos ? std::string_view() : intro.substr(end + 2);
}

std::string optionText(const Option& option) {
  std::string term;
  if (option.short_name != 0) term += bold("-" + std::string(1, option.short_name)) + ", ";
  term += bold("--" + option.long_name);
  if (option.value == Option::kRequired) term += " " + italic(option.value_name);
  if (option.value == Option::kOptional) term += "[=" + italic(option.value_name) + "]";
  std::string text;
  for (const std::string& line : splitAt(option.text, '\n')) {
    const auto first = line.find_first_not_of(' ');
    if (first != std::string::npos) text += roffText(line.substr(first)) + "\n";
  }
  return ".TP\n" + term + "\n" + text;
}

std::string reference(const CommandPage& command) { return bold(manName(command)) + "(1)"; }

}  // namespace

std::string manName(const CommandPage& command) {
  std::string name = command.path.empty() ? "railwise" : "railwise-" + command.path;
  std::ranges::replace(name, ' ', '-');
  for (auto at = name.find("---"); at != std::string::npos; at = name.find("---")) name.erase(at, 2);
  return name;
}

std::string manText(std::span<const CommandPage> pages, const CommandPage& command) {
  const std::string title = upperCase(manName(command));
  std::string roff =
      ".TH \"" + roffText(title) + "\" 1 \"\" \"railwise " RAILWISE_VERSION "\" \"Railwise\"\n";
  roff += ".SH NAME\n" + roffText(manName(command)) + " \\- " + roffText(command.text) + "\n";
  roff += ".SH SYNOPSIS\n.nf\n";
  for (const std::string& line : usageLines(command.page)) roff += roffText(line) + "\n";
  roff += ".fi\n";
  Prose prose;
  addParagraphs(withoutUsage(command.page.intro), prose);
  if (!command.page.is_group) addParagraphs(command.page.after_options, prose);
  if (command.path.empty())
    addParagraphs(
        "The environment variables that the plugin and the command read, with the values in force:\n\n"
        "  railwise config\n",
        prose);
  if (!prose.description.empty()) roff += ".SH DESCRIPTION\n" + prose.description;
  if (!command.children.empty()) {
    roff += ".SH COMMANDS\n";
    for (const std::size_t child : command.children)
      roff += ".TP\n" + bold("railwise " + pages[child].path) + "\n" + roffText(pages[child].text) + "\n";
  }
  roff += ".SH OPTIONS\n";
  for (const Option& option : optionsOf(command)) roff += optionText(option);
  if (!prose.exit_status.empty()) roff += ".SH \"EXIT STATUS\"\n" + prose.exit_status;
  std::vector<std::string> others;
  for (const CommandPage& page : pages) {
    const bool is_child = page.path != command.path && page.path.starts_with(command.path + " ");
    const bool is_parent =
        command.path.starts_with(page.path + " ") || (page.path.empty() && !command.path.empty());
    const bool of_top =
        command.path.empty() && !page.path.empty() && page.path.find(' ') == std::string::npos;
    if (is_child || is_parent || of_top) others.push_back(reference(page));
  }
  if (!others.empty()) roff += ".SH \"SEE ALSO\"\n" + joined(others, ",\n") + "\n";
  return roff;
}

}  // namespace railwise::cli
