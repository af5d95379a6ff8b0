"""Man pages and completions against --help: every command, every option. Each shell and each reader of man pages that is here
tries what is made for it; a line names what is not here.

Usage: help_pages_test.py RAILWISE CMAKE BUILD
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

RAILWISE = pathlib.Path(sys.argv[1]).resolve()
OPTION = re.compile(r"^  (?:-(\w), |    )--([\w-]+)", re.M)
LIMIT_S = 120
failures = []


def expect(condition, message):
    if not condition:
        failures.append(message)


def run(*command, text=None, environment=None):
    return subprocess.run([str(word) for word in command], input=text, capture_output=True, text=True, timeout=LIMIT_S, env=environment)


def said(*words):
    done = run(RAILWISE, *words)
    if done.returncode != 0 or done.stderr:
        sys.exit(f"FAIL: railwise {' '.join(words)}: status {done.returncode}, {done.stderr}")
    return done.stdout


def commands(path=()):
    """Each command with its --help, found by reading the texts alone."""
    text = said(*path, "--help")
    yield path, text
    is_group = re.match(r"usage: railwise (\w+ )?(SUB)?COMMAND", text)
    if is_group and path != ("help",):
        words = re.findall(r"^  (\w+) +\S", text, re.M)
    else:
        words = re.findall(rf"^       railwise {' '.join(path)} (pick|fitness|--log|--pair|--watch|--health)\b", text, re.M)
    for word in dict.fromkeys(words):
        yield from commands((*path, word)) if path != ("doctor", word) else ()


def options_of(text):
    """Spellings of all options in a --help, with those of the page to which it refers."""
    if re.search(r"railwise help\s+machines\n", text):
        text += said("help", "machines")
    found = {f"--{long}" for _, long in OPTION.findall(text)} | {f"-{short}" for short, _ in OPTION.findall(text) if short}
    return found or {"--help", "-h"}  # a group's text does not list them


def words_of(path):
    """As `railwise help` takes them: doctor log."""
    return [word.removeprefix("--") for word in path]


def check_man(path, text):
    roff = said("help", "--man", *words_of(path))
    options = {re.sub(r"\\-", "-", name) for name in re.findall(r"\\fB((?:\\-){1,2}[\w\\-]+)\\fR", roff.split(".SH OPTIONS")[1].split(".SH")[0])}
    expect(options == options_of(text), f"man page of {path}: {options ^ options_of(text)}")
    expect(".SH NAME" in roff and ".SH SYNOPSIS" in roff, f"man page of {path}: sections")
    return roff


def check_readers(folder):
    """What reads man pages finds nothing wrong with them."""
    pages = sorted(pathlib.Path(folder).glob("*.1"))
    expect((pathlib.Path(folder) / "railwise-doctor-log.1").exists() and (pathlib.Path(folder) / "railwise.1").exists(), "names of man pages")
    if shutil.which("mandoc"):
        # A page has no date: it would be that of the build.
        wrong = [line for line in run("mandoc", "-T", "lint", "-W", "warning", *pages).stdout.splitlines() if "missing date" not in line]
        expect(not wrong, "mandoc: " + "; ".join(wrong[:5]))
    else:
        print("no mandoc here")
    if shutil.which("groff"):
        done = run("groff", "-man", "-ww", "-z", "-Tutf8", *pages)
        expect(not done.stderr and done.returncode == 0, "groff: " + done.stderr[:400])
    else:
        print("no groff here")
    return len(pages)


# Lines of words, split by tabs; the last one is being typed, and EMPTY if nothing of it is.
BASH = r"""
source "$1"
while IFS=$'\t' read -r -a COMP_WORDS; do
  COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
  [[ ${COMP_WORDS[COMP_CWORD]} != EMPTY ]] || COMP_WORDS[COMP_CWORD]=
  COMPREPLY=()
  _railwise
  echo "${COMPREPLY[*]}"
done
"""


class Bash:
    name = "bash"

    def __init__(self, script, folder):
        self.script, self.folder = script, folder

    def complete(self, lines):
        """For each list of words, the last of which is being typed, what bash offers."""
        text = "".join("\t".join([*words[:-1], words[-1] or "EMPTY"]) + "\n" for words in lines)
        done = subprocess.run(["bash", "--norc", "-c", BASH, "bash", self.script], input=text, capture_output=True, text=True,
                              cwd=self.folder, timeout=LIMIT_S)
        expect(not done.stderr, "bash: " + done.stderr[:300])
        return [set(line.split()) for line in done.stdout.split("\n")[:-1]]


class Fish:
    name = "fish"

    def __init__(self, script, folder):
        self.script, self.folder = script, folder

    def complete(self, lines):
        asks = "".join(f"complete -C '{' '.join(words)}'\necho =\n" for words in lines)
        home = {**os.environ, "HOME": str(self.folder.parent), "XDG_CONFIG_HOME": "", "XDG_DATA_HOME": "",
                "PATH": "/usr/bin:/bin"}
        done = run("fish", "--no-config", "-c", f"cd {self.folder}\nsource {self.script}\n{asks}", environment=home)
        expect(not done.stderr, "fish: " + done.stderr[:300])
        return [{line.split("\t")[0] for line in answer.splitlines() if line} for answer in done.stdout.split("=\n")[:-1]]


def modes_of(path, pages):
    """Options that lead to a page of their own: --log of doctor."""
    return {other[-1] for other in pages if other and other[:-1] == path and other[-1].startswith("-")}


def longs(options):
    return {option for option in options if option.startswith("--")}


def check_shell(shell, pages):
    """Options of every command; words; values."""
    pathlib.Path(shell.folder, "file.xml").write_text("")
    paths = list(pages)
    offered = shell.complete([["railwise", *path, "--"] for path in paths])
    expect(len(offered) == len(paths), f"{shell.name}: {len(offered)} answers for {len(paths)} commands")
    for path, found in zip(paths, offered):
        wanted = longs(options_of(pages[path]))
        children = modes_of(path, pages)
        expect(found == wanted | children, f"{shell.name}, {' '.join(path)}: {sorted(found ^ (wanted | children))}")
    words = [(["railwise", "topo", ""], {path[-1] for path in paths if path[:-1] == ("topo",)}),
             (["railwise", "perf", "a"], {"all_reduce", "all_gather", "alltoall"}),
             (["railwise", "help", "topo", ""], {path[-1] for path in paths if path[:-1] == ("topo",)}),
             (["railwise", "help", "topo", "sh"], {"show"}),
             (["railwise", "help", "topo", "show", ""], set()),
             (["railwise", "help", "doctor", ""], {"log", "pair", "watch", "health"}),
             (["railwise", "help", "to"], {"top", "topo"}),
             (["railwise", "help", "topo", "show", "--man-"], {"--man-pages"}),
             (["railwise", "completion", ""], {"bash", "zsh", "fish"}),
             (["railwise", "gpus", "f"], {"fitness", "file.xml"}),
             (["railwise", "topo", "show", "--format", "s"], {"svg"}),
             (["railwise", "topo", "show", "f"], {"file.xml"}),
             (["railwise", "topo", "show", "--root", "f"], {"file.xml"}),
             (["railwise", "topo", "show", "--gpu-sm", "f"], set()),
             (["railwise", "topo", "show", "--quiet", "f"], {"file.xml"}),
             (["railwise", "doctor", "--log", "f"], {"file.xml"})]
    for (line, wanted), found in zip(words, shell.complete([line for line, _ in words])):
        expect(found == wanted, f"{shell.name}, {' '.join(line)}: {sorted(found)}, not {sorted(wanted)}")


def check_bash_values(shell):
    """bash splits at '='."""
    (found,), = [shell.complete([["railwise", "topo", "show", "--format", "=", "m"]])]
    expect(found == {"matrix"}, f"bash, --format=m: {found}")
    (found,), = [shell.complete([["railwise", "topo", "show", "--format", "="]])]
    expect({"matrix", "html"} <= found, f"bash, --format=: {found}")


def check_zsh(script, pages):
    functions = dict(re.findall(r"^(_railwise\w*)\(\) \{\n(.*?)^\}", script, re.M | re.S))
    for path, text in pages.items():
        name = "_railwise_" + "_".join(path).replace("-", "").replace("__", "_") if path else "_railwise_itself"
        if name not in functions:
            failures.append(f"zsh: no {name}")
            continue
        specs = re.findall(r"^    '(--?[\w-]+)", functions[name], re.M)
        children = modes_of(path, pages)
        expect(set(specs) == options_of(text) | children, f"zsh, {path}: {set(specs) ^ (options_of(text) | children)}")


def check_zsh_help(script, pages):
    """`help topo` leads to a function that knows topo's subcommands, and no others."""
    functions = dict(re.findall(r"^(_railwise\w*)\(\) \{\n(.*?)^\}", script, re.M | re.S))
    for path in pages:
        words = words_of(path)
        name = "_".join(["_railwise_help", *words])
        first = re.search(r"local -a first=\(\n(.*?)^  \)", functions.get(name, ""), re.M | re.S)
        offered = set(re.findall(r"^    '([\w-]+):", first[1], re.M)) if first else set()
        wanted = {words_of(other)[-1] for other in pages if other and other[:-1] == path} if path != ("help",) else set()
        expect(name in functions and offered == wanted, f"zsh, {name}: {sorted(offered ^ wanted)}")


def check_full_stdout(pages):
    """What stdout does not take is an error, of every command's help and of what only prints."""
    with open("/dev/full", "w") as full:
        for words in [*([*path, "--help"] for path in pages), ["version"], ["version", "--json"], ["device", "list"], ["doctor", "--list"], ["config"]]:
            done = subprocess.run([RAILWISE, *words], stdout=full, stderr=subprocess.PIPE, text=True, timeout=LIMIT_S)
            told = done.stderr.count("cannot write to stdout")
            expect(done.returncode == 1 and told == 1, f"railwise {' '.join(words)} >/dev/full: status {done.returncode}, {done.stderr}")


def check_installation(folder, pages):
    """What `cmake --install` puts where man and the shells look is what the command prints."""
    done = run(*sys.argv[2:3], "--install", sys.argv[3], "--component", "command", "--prefix", folder)
    expect(done.returncode == 0, f"cmake --install: {done.stderr[:300]}")
    share = folder / "share"
    wanted = {"bash": "bash-completion/completions/railwise", "zsh": "zsh/site-functions/_railwise", "fish": "fish/vendor_completions.d/railwise.fish"}
    for shell, name in wanted.items():
        expect((share / name).is_file() and (share / name).read_text() == said("completion", shell), f"installed: {name}")
    expect(len(list((share / "man/man1").glob("railwise*.1.gz"))) == len(pages), "installed man pages")


def main():
    pages = dict(commands())
    expect(len(pages) > 35, f"only {len(pages)} commands found")
    for path, text in pages.items():
        check_man(path, text)
        if path:
            expect(said("help", *words_of(path)) == text, f"railwise help {' '.join(path)} differs from --help")
    with tempfile.TemporaryDirectory(prefix="railwise-help-") as name:
        folder = pathlib.Path(name)
        said("help", "--man-pages", str(folder / "man"))
        expect(check_readers(folder / "man") == len(pages), "a man page for each command")
        scripts = {shell: folder / shell for shell in ("bash", "zsh", "fish")}
        for shell, script in scripts.items():
            script.write_text(said("completion", shell))
            if shutil.which(shell) is None:
                print(f"no {shell} here")
                continue
            done = run(shell, "-n", script)
            expect(done.returncode == 0 and not done.stderr, f"{shell} -n: {done.stderr[:300]}")
        (folder / "work").mkdir()
        if shutil.which("bash"):
            bash = Bash(scripts["bash"], folder / "work")
            check_shell(bash, pages)
            check_bash_values(bash)
        if shutil.which("fish"):
            check_shell(Fish(scripts["fish"], folder / "work"), pages)
        check_installation(folder / "prefix", pages)
        check_zsh(scripts["zsh"].read_text(), pages)
        check_zsh_help(scripts["zsh"].read_text(), pages)
    check_full_stdout(pages)
    for failure in failures:
        print("FAIL:", failure)
    print(f"{len(pages)} commands, {sum(len(options_of(text)) for text in pages.values())} spellings of options")
    sys.exit(1 if failures else 0)


main()
