// Completions for bash, fish and zsh, made of the help pages.
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "cli/help/pages.h"

namespace railwise::cli {
namespace {

// What a subcommand of the page does; "": the word is none.
std::string textOfWord(std::span<const CommandPage> pages, const CommandPage& page, const std::string& word) {
  for (const std::size_t child : page.children)
    if (pages[child].name == word) return pages[child].text;
  return "";
}

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
  std::ranges::replace(name, '-', '_');
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
    const std::string text = textOfWord(pages, page, word);
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
    const std::string text = textOfWord(pages, page, word);
    lines += rule(page) + (word.starts_with("--") ? " -l " + word.substr(2) : " -a " + fishQuoted(word));
    lines += (text.empty() ? "" : " -d " + fishQuoted(text)) + "\n";
  }
  if (arguments.kind == ValueKind::kFile) lines += rule(page) + " -F\n";
  if (arguments.kind == ValueKind::kProgram)
    lines += rule(page) + " -a '(__fish_complete_subcommand --fcs-skip=3)'\n";
  return lines;
}

constexpr const char* kBegin =
    "# bash completion of railwise; made by `railwise completion bash`\n"
    "_railwise() {\n"
    "  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} command= i words= "
    "arguments= what=\n"
    "  # bash takes --option=value apart at the '='.\n"
    "  if [[ $current == '=' ]]; then\n"
    "    current=\n"
    "  elif [[ $previous == '=' ]]; then\n"
    "    previous=${COMP_WORDS[COMP_CWORD-2]}\n"
    "  fi\n"
    "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
    "    case \"${command:+$command }${COMP_WORDS[i]}\" in\n";

constexpr const char* kAfterPaths =
    ") command=\"${command:+$command }${COMP_WORDS[i]}\" ;;\n"
    "    esac\n"
    "  done\n"
    "  case \"$command $previous\" in\n";

constexpr const char* kAfterValues =
    "  esac\n"
    "  if [[ -z $what ]]; then\n"
    "    case \"$command\" in\n";

constexpr const char* kEnd =
    "    esac\n"
    "    if [[ $current == -* ]]; then\n"
    "      what=words\n"
    "    else\n"
    "      words=$arguments\n"
    "    fi\n"
    "  fi\n"
    "  local generate=()\n"
    "  case $what in\n"
    "    files) compopt -o filenames 2>/dev/null; generate=(-f) ;;\n"
    "    programs) generate=(-c -f) ;;\n"
    "    none) return ;;\n"
    "  esac\n"
    "  mapfile -t COMPREPLY < <(compgen \"${generate[@]}\" -W \"$words\" -- \"$current\")\n"
    "}\n"
    "complete -F _railwise railwise\n";

std::string patternOf(const std::string& text) { return "\"" + text + "\""; }

// "topo show --format"|"topo show -f", for those options of all commands that `wanted` takes.
template <typename Wanted>
void addValueCase(std::string& script, const CommandPage& page, const Wanted& wanted,
                  const std::string& then) {
  std::vector<std::string> patterns;
  for (const Option& option : page.page.options)
    if (option.value != Option::kNone && wanted(option))
      for (const std::string& spelling : spellingsOf(option))
        if (option.value == Option::kRequired || spelling.starts_with("--"))
          patterns.push_back(patternOf(page.path + " " + spelling));
  if (!patterns.empty()) script += "    " + joined(patterns, "|") + ") " + then + " ;;\n";
}

void addValues(std::string& script, const CommandPage& page) {
  for (const Option& choice : page.page.options)
    if (valueKind(choice) == ValueKind::kChoice)
      addValueCase(
          script, page, [&](const Option& option) { return option.long_name == choice.long_name; },
          "what=words words=" + patternOf(joined(choice.choices, " ")));
  addValueCase(
      script, page, [](const Option& option) { return valueKind(option) == ValueKind::kFile; }, "what=files");
  // Of an option whose value is optional, a word behind it is not the value.
  addValueCase(
      script, page,
      [](const Option& option) {
        return valueKind(option) == ValueKind::kNothing && option.value == Option::kRequired;
      },
      "what=none");
}

}  // namespace

std::string bashCompletion(std::span<const CommandPage> pages) {
  std::string script = kBegin;
  std::vector<std::string> paths;
  for (const CommandPage& page : pages)
    if (!page.path.empty()) paths.push_back(patternOf(page.path));
  script += "      " + joined(paths, "|") + kAfterPaths;
  for (const CommandPage& page : pages) addValues(script, page);
  script += kAfterValues;
  for (const CommandPage& page : pages) {
    std::vector<std::string> options;
    std::vector<std::string> words;
    for (const Option& option : optionsOf(page))
      for (const std::string& spelling : spellingsOf(option)) options.push_back(spelling);
    const ArgumentWords arguments = argumentWords(pages, page);
    for (const std::string& word : arguments.words) (word.starts_with("-") ? options : words).push_back(word);
    script += "      " + patternOf(page.path) + ") words=" + patternOf(joined(options, " ")) +
              " arguments=" + patternOf(joined(words, " "));
    if (arguments.kind == ValueKind::kFile) script += " what=files";
    if (arguments.kind == ValueKind::kProgram) script += " what=programs";
    script += " ;;\n";
  }
  return script + kEnd;
}

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
