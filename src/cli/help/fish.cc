#include <string>
#include <string_view>
#include <vector>

#include "cli/help/formats.h"

namespace railwise::cli {
namespace {

// A text inside of '...', on one line.
std::string fishQuoted(std::string_view text) {
  std::string shell = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') shell += '\\';
    shell += c == '\n' ? ' ' : c;
  }
  return shell + "'";
}

std::string rule(const CommandPage& page) {
  return "complete -c railwise -n " + fishQuoted("__railwise_at '" + page.path + "'");
}

std::string optionRule(const CommandPage& page, const Option& option) {
  std::string line = rule(page) + " -l " + option.long_name;
  if (option.short_name != 0) line += " -s " + std::string(1, option.short_name);
  switch (valueKind(option)) {
    case ValueKind::kChoice:
      line += option.value == Option::kRequired ? " -x -a " : " -a ";
      line += fishQuoted(joined(option.choices, " "));
      break;
    case ValueKind::kFile:
      line += option.value == Option::kRequired ? " -r -F" : " -F";
      break;
    default:
      line += option.value == Option::kRequired ? " -x" : "";
      break;
  }
  return line + " -d " + fishQuoted(option.text) + "\n";
}

std::string argumentRules(std::span<const CommandPage> pages, const CommandPage& page) {
  const ArgumentWords arguments = argumentWords(pages, page);
  std::string lines;
  for (const std::string& word : arguments.words) {
    std::string text;
    for (const std::size_t child : page.children)
      if (pages[child].name == word) text = pages[child].text;
    lines += rule(page) + (word.starts_with("--") ? " -l " + word.substr(2) : " -a " + fishQuoted(word));
    lines += (text.empty() ? "" : " -d " + fishQuoted(text)) + "\n";
  }
  if (arguments.kind == ValueKind::kFile) lines += rule(page) + " -F\n";
  if (arguments.kind == ValueKind::kProgram)
    lines += rule(page) + " -a '(__fish_complete_subcommand --fcs-skip=3)'\n";
  return lines;
}

}  // namespace

std::string fishCompletion(std::span<const CommandPage> pages) {
  std::vector<std::string> paths;
  for (const CommandPage& page : pages)
    if (!page.path.empty()) paths.push_back(fishQuoted(page.path));
  std::string script =
      "# fish completion of railwise; made by `railwise completion fish`\n"
      "function __railwise_at --description 'The command before the cursor is this one'\n"
      "    set -l path\n"
      "    for word in (commandline -opc)[2..-1]\n"
      "        switch (string join ' ' -- $path $word)\n"
      "            case " +
      joined(paths, " ") +
      "\n"
      "                set -a path $word\n"
      "        end\n"
      "    end\n"
      "    set -l joined (string join ' ' -- $path)\n"
      "    test \"$joined\" = \"$argv\"\n"
      "end\n"
      "complete -c railwise -f\n";
  for (const CommandPage& page : pages) {
    for (const Option& option : optionsOf(page)) script += optionRule(page, option);
    script += argumentRules(pages, page);
  }
  return script;
}

}  // namespace railwise::cli
