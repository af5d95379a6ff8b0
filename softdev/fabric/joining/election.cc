#include "softdev/fabric/joining/election.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>

#include "base/clock.h"
#include "base/log.h"
#include "base/text/words.h"
#include "softdev/fabric/joining/membership.h"

namespace railwise::softdev {
namespace {

constexpr const char* kFolder = "/dev/shm/";
constexpr auto kPause = std::chrono::milliseconds(1);

struct CloseFolder {
  void operator()(DIR* folder) const { closedir(folder); }
};

std::string fileNamePrefix() { return ".railwise-lock." + std::to_string(geteuid()) + "."; }

// The byte of the lock files that stands for the fabric. Two fabrics on one byte exclude each other, for
// milliseconds.
off_t byteOf(const std::string& prefix) { return static_cast<off_t>(stableHash(prefix) >> 2); }

// The files of this user in which the locks are. One as a rule: only two processes that both found none make
// two, and then everybody locks both. None is ever removed, so whoever looks later finds at least as many.
// `*error` receives why the folder cannot be read; 0: it can.
std::vector<std::string> listFiles(int* error) {
  std::vector<std::string> files;
  const std::unique_ptr<DIR, CloseFolder> folder(opendir(kFolder));
  *error = folder != nullptr ? 0 : errno;
  const std::string prefix = fileNamePrefix();
  while (const dirent* entry = folder != nullptr ? readdir(folder.get()) : nullptr) {
    if (std::strncmp(entry->d_name, prefix.c_str(), prefix.size()) != 0) continue;
    struct stat file = {};
    const std::string path = std::string(kFolder) + entry->d_name;
    if (lstat(path.c_str(), &file) == 0 && S_ISREG(file.st_mode) && file.st_uid == geteuid())
      files.push_back(path);
  }
  std::sort(files.begin(), files.end());
  return files;
}

// Other users cannot guess the name, so they cannot take it first.
void makeFile() {
  const std::string path =
      kFolder + fileNamePrefix() + std::to_string(randomNumber()) + std::to_string(randomNumber());
  const int fd = open(path.c_str(), O_CREAT | O_EXCL | O_RDWR | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd >= 0) close(fd);
}

// An open descriptor of `path` that holds the lock of `byte`. -1 with EAGAIN: another process has it.
int lockFile(const std::string& path, off_t byte) {
  const int fd = open(path.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return -1;
  struct stat file = {};
  struct flock range = {};
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  range.l_start = byte;
  range.l_len = 1;
  errno = ENOLCK;
  if (fstat(fd, &file) == 0 && file.st_uid == geteuid() && fcntl(fd, F_OFD_SETLK, &range) == 0) return fd;
  const int error = errno == EACCES ? EAGAIN : errno;
  close(fd);
  errno = error;
  return -1;
}

void closeAll(std::vector<int>& fds) {
  for (const int fd : fds) close(fd);
  fds.clear();
}

enum class Try { kHeld, kBusy, kNoFile, kNoDescriptor };

bool outOfDescriptors(int error) { return error == EMFILE || error == ENFILE; }

// Tries once to lock all files. kNoFile: there are none here, and none can be made. kNoDescriptor: this
// process has none left for them; `errno` says why.
Try lockFiles(off_t byte, std::vector<int>* held) {
  int error = 0;
  std::vector<std::string> files = listFiles(&error);
  if (files.empty() && !outOfDescriptors(error)) {
    makeFile();
    files = listFiles(&error);
  }
  const auto noDescriptor = [&] {
    closeAll(*held);
    errno = error;
    return Try::kNoDescriptor;
  };
  if (outOfDescriptors(error)) return noDescriptor();
  held->reserve(files.size() + 1);
  for (const std::string& file : files) {
    const int fd = lockFile(file, byte);
    if (fd >= 0) {
      held->push_back(fd);
      continue;
    }
    error = errno;
    if (outOfDescriptors(error)) return noDescriptor();
    closeAll(*held);
    return error == EAGAIN ? Try::kBusy : Try::kNoFile;
  }
  if (files.empty()) return Try::kNoFile;
  // A file that was made meanwhile may be locked by its maker, who has not seen ours.
  if (listFiles(&error) == files) return Try::kHeld;
  if (outOfDescriptors(error)) return noDescriptor();
  closeAll(*held);
  return Try::kBusy;
}

// Whose is the lock's name?
enum class Whose { kOurs, kForeign, kUnknown };
Whose whoseName(const std::string& name, std::string* who) {
  for (const NamedSocket& socket : listNames(name)) {
    if (socket.name != name) continue;
    const std::optional<uid_t> user = userOf(socket);
    if (user == kNoUser) continue;
    if (!user) return Whose::kUnknown;
    *who = "user " + std::to_string(*user);
    return *user == geteuid() ? Whose::kOurs : Whose::kForeign;
  }
  return Whose::kOurs;  // it has just become free
}

// Does the descriptor hold the lock of the byte? fdinfo has a line for each: "lock: ... WRITE -1 ... 17 17".
bool holdsByte(const std::filesystem::path& fdinfo, off_t byte) {
  std::ifstream file(fdinfo);
  const std::string end = " " + std::to_string(byte) + " " + std::to_string(byte);
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("lock:") && line.ends_with(end)) return true;
  }
  return false;
}

std::string describeProcess(const std::filesystem::path& process) {
  std::ifstream file(process / "stat");
  std::string stat;
  std::getline(file, stat);
  const std::size_t open = stat.find('(');
  const std::size_t close = stat.rfind(')');
  if (open == std::string::npos || close == std::string::npos || close + 2 >= stat.size()) return "";
  return "process " + stat.substr(0, open) + stat.substr(open, close - open + 1) + ", state " +
         stat[close + 2];
}

}  // namespace

Result<Election> Election::win(const std::string& prefix) {
  using std::chrono::seconds;
  // A process holds the lock for some milliseconds at most. The kernel frees the lock when its owner dies.
  const Deadline deadline = Deadline::after(seconds(20));
  const off_t byte = byteOf(prefix);
  const std::string name = prefix + "lock";
  Election won({});
  std::vector<int>& held = won.fds_;
  Try files = lockFiles(byte, &held);
  for (; files == Try::kBusy && !deadline.passed(); files = lockFiles(byte, &held))
    std::this_thread::sleep_for(kPause);
  if (files == Try::kNoDescriptor) {
    const int error = errno;
    RAILWISE_WARN("software device: cannot lock the fabric %s: %s; raise the limit of open files (ulimit -n)",
                  prefix.c_str(), std::strerror(error));
    return Status{Code::kSystem, error};
  }
  // With the file only processes of this user in other mount namespaces can have the name. Where the kernel
  // does not say whose it is, this waits longer than any of them needs.
  const Deadline patience = Deadline::after(seconds(1));
  constexpr int kLookEvery = 64;  // a look costs more than a try
  std::string who = "a user whom the kernel does not name";
  for (int round = 0; files != Try::kBusy; ++round, std::this_thread::sleep_for(kPause)) {
    held.reserve(held.size() + 1);
    Result<int> lock = bindName(name);
    if (lock.ok()) held.push_back(*lock);
    if (lock.ok()) return won;
    if (lock.status().sys_errno != EADDRINUSE) {
      RAILWISE_WARN("software device: cannot lock the fabric (abstract socket %s): %s", name.c_str(),
                    std::strerror(lock.status().sys_errno));
      return lock.status();
    }
    const Whose whose = round % kLookEvery == 0 ? whoseName(name, &who) : Whose::kOurs;
    const bool foreign_name = whose == Whose::kForeign || (whose == Whose::kUnknown && patience.passed());
    if (foreign_name && files == Try::kHeld) {
      RAILWISE_INFO(log::kInit, "software device: %s has the name %s; its file in %s is ours", who.c_str(),
                    name.c_str(), kFolder);
      return won;
    }
    if (whose == Whose::kForeign) {
      RAILWISE_WARN(
          "software device: cannot join the fabric %s: %s has bound the name of its lock, and %s, which "
          "would do without, has no file of ours. Make %s writable, or take a fabric whose name nobody can "
          "guess (RAILWISE_FABRIC=NAME)",
          prefix.c_str(), who.c_str(), kFolder, kFolder);
      return lock.status();
    }
    if (deadline.passed()) break;
  }
  closeAll(held);  // before the search below, which looks at our descriptors too
  RAILWISE_WARN(
      "software device: cannot join the fabric %s: %s has held its lock for 20 s. Let that process go on "
      "(kill -CONT, a debugger), end it, or take another fabric (RAILWISE_FABRIC=NAME)",
      prefix.c_str(), lockHolder(prefix).c_str());
  return Status{Code::kSystem, EADDRINUSE};
}

Election::~Election() { closeAll(fds_); }

std::string lockHolder(const std::string& prefix) {
  namespace fs = std::filesystem;
  std::string socket;
  for (const NamedSocket& named : listNames(prefix + "lock")) {
    if (named.name == prefix + "lock") socket = "socket:[" + std::to_string(named.inode) + "]";
  }
  int unread = 0;
  const std::vector<std::string> files = listFiles(&unread);
  const off_t byte = byteOf(prefix);
  std::string has_name;
  std::error_code error;
  for (fs::directory_iterator process("/proc", error), end; !error && process != end;
       process.increment(error)) {
    std::error_code refused;  // another user's process, or one that has just ended
    for (fs::directory_iterator fd(process->path() / "fd", refused); !refused && fd != end;
         fd.increment(refused)) {
      const std::string target = fs::read_symlink(fd->path(), refused).string();
      if (refused) break;
      const bool has_file = std::find(files.begin(), files.end(), target) != files.end() &&
                            holdsByte(process->path() / "fdinfo" / fd->path().filename(), byte);
      if (has_file) return describeProcess(process->path());
      if (!socket.empty() && target == socket) has_name = describeProcess(process->path());
    }
  }
  return has_name.empty() ? "a process that cannot be found" : has_name;
}

}  // namespace railwise::softdev
