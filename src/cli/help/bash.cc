#include <string>
#include <vector>

#include "cli/help/formats.h"

namespace railwise::cli {
namespace {

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

}  // namespace railwise::cli
