#include <string>
#include <string_view>
#include <vector>

#include "cli/help/formats.h"

namespace railwise::cli {
namespace {

// A text inside of '...'.
std::string zshQuoted(std::string_view text) {
  std::string shell = "'";
  for (const char c : text) shell += c == '\'' ? "'\\''" : std::string(1, c);
  return shell + "'";
}

// A text inside of [...] or between colons of an argument of _arguments.
std::string zshText(std::string_view text) {
  std::string spec;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') spec += '\\';
    spec += c == '\n' ? ' ' : c;
  }
  return spec;
}

std::string actionOf(ValueKind kind, const std::vector<std::string>& choices) {
  if (kind == ValueKind::kChoice) return "(" + joined(choices, " ") + ")";
  return kind == ValueKind::kFile ? "_files" : " ";
}

std::string argumentOf(const Option& option, const std::string& spelling) {
  std::string spec = spelling;
  const bool is_long = spelling.starts_with("--");
  if (option.value == Option::kRequired) spec += is_long ? "=" : "+";
  if (option.value == Option::kOptional && is_long) spec += "=-";
  spec += "[" + zshText(option.text) + "]";
  if (option.value == Option::kRequired || (option.value == Option::kOptional && is_long))
    spec += (option.value == Option::kOptional ? "::" : ":") + zshText(option.value_name) + ":" +
            actionOf(valueKind(option), option.choices);
  return zshQuoted(spec);
}

std::string functionName(const CommandPage& page) {
  std::string name = "_" + manName(page);
  for (char& c : name)
    if (c == '-') c = '_';
  return name == "_railwise" ? "_railwise_itself" : name;
}

void addFunction(std::string& script, std::span<const CommandPage> pages, const CommandPage& page) {
  const ArgumentWords arguments = argumentWords(pages, page);
  script += functionName(page) + "() {\n";
  // A subcommand has a function of its own, which sees the words from its name on.
  if (!page.children.empty()) {
    script += "  case $words[2] in\n";
    for (const std::size_t child : page.children)
      script += "    " + zshQuoted(pages[child].name) + ") shift words; (( CURRENT-- )); " +
                functionName(pages[child]) + "; return ;;\n";
    script += "  esac\n";
  }
  script += "  local -a specs=(\n";
  for (const Option& option : optionsOf(page))
    for (const std::string& spelling : spellingsOf(option))
      script += "    " + argumentOf(option, spelling) + "\n";
  for (const std::size_t child : page.children)
    if (pages[child].name.starts_with("-"))
      script += "    " + zshQuoted(pages[child].name + "[" + zshText(pages[child].text) + "]") + "\n";
  std::vector<std::string> named;  // with what they do
  std::vector<std::string> plain;
  for (const std::string& word : arguments.words) {
    if (word.starts_with("-")) continue;
    std::string text;
    for (const std::size_t child : page.children)
      if (pages[child].name == word) text = pages[child].text;
    text.empty() ? plain.push_back(word) : named.push_back(zshQuoted(zshText(word) + ":" + text));
  }
  if (!plain.empty()) script += "    " + zshQuoted("1:word:(" + joined(plain, " ") + ")") + "\n";
  if (!named.empty()) script += "    '1: :->first'\n";
  if (arguments.kind == ValueKind::kFile) script += "    '*:file:_files'\n";
  if (arguments.kind == ValueKind::kProgram) script += "    '*:::command: _normal'\n";
  script += "  )\n";
  if (named.empty()) {
    script += "  _arguments -S : $specs\n}\n";
    return;
  }
  script += "  local context state state_descr line\n  local -A opt_args\n  local -a first=(\n    " +
            joined(named, "\n    ") +
            "\n  )\n  _arguments -S -C : $specs\n  if [[ $state == first ]]; then\n" +
            "    _describe command first" + (arguments.kind == ValueKind::kFile ? "\n    _files" : "") +
            "\n  fi\n}\n";
}

}  // namespace

std::string zshCompletion(std::span<const CommandPage> pages) {
  std::string script = "#compdef railwise\n# zsh completion of railwise; made by `railwise completion zsh`\n";
  for (const CommandPage& page : pages) addFunction(script, pages, page);
  return script +
         "if [[ $funcstack[1] == _railwise ]]; then\n"
         "  _railwise_itself \"$@\"\n"
         "else\n"
         "  compdef _railwise_itself railwise\n"
         "fi\n";
}

}  // namespace railwise::cli
