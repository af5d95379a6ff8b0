// Trees that the doctor puts over a machine's tree: facts that are in no file, and a note of what was read.
#pragma once

#include <string>
#include <vector>

#include "sysfs/file_tree.h"

namespace railwise::doctor {

// Each path is one of another tree, which must outlive this one.
class ChoosingTree : public sysfs::FileTree {
 protected:
  virtual const sysfs::FileTree& treeOf(const std::string& real_path) const = 0;
  Entry entryAt(const std::string& real_path) const override;
  std::optional<std::string> readAt(const std::string& real_path, std::size_t most) const override;
  std::vector<std::string> listAt(const std::string& real_path) const override;
};

// A tree over another one: what `over` has counts, everything else is that of `base`.
class OverlayTree final : public ChoosingTree {
 public:
  OverlayTree(const sysfs::FileTree& base, const sysfs::MemoryTree& over) : base_(base), over_(over) {}

  const std::string& name() const override { return base_.name(); }
  bool live() const override { return base_.live(); }

 protected:
  const sysfs::FileTree& treeOf(const std::string& real_path) const override;
  // A folder has the names of both.
  std::vector<std::string> listAt(const std::string& real_path) const override;

 private:
  const sysfs::FileTree& base_;
  const sysfs::MemoryTree& over_;
};

// What lies below /sys, /railwise and /var/run is that of `machine` (RAILWISE_SYSFS_ROOT: a container that
// sees the host's elsewhere, or a software machine), everything else that of `rest`.
class SplitTree final : public ChoosingTree {
 public:
  SplitTree(const sysfs::FileTree& rest, const sysfs::FileTree& machine) : rest_(rest), machine_(machine) {}

  const std::string& name() const override { return machine_.name(); }

 protected:
  const sysfs::FileTree& treeOf(const std::string& real_path) const override;

 private:
  const sysfs::FileTree& rest_;
  const sysfs::FileTree& machine_;
};

// Remembers all that is read of another tree, so that a report can carry exactly that: the same checks of the
// copy find the same. Of the kernel's symbols it keeps what the checks ask for. One thread at a time. The
// tree must outlive it.
class TracingTree final : public sysfs::FileTree {
 public:
  explicit TracingTree(const sysfs::FileTree& tree) : tree_(tree) {}

  const std::string& name() const override { return tree_.name(); }
  bool live() const override { return tree_.live(); }
  // Files, links and folders that were read or listed.
  const sysfs::MemoryTree& copy() const { return copy_; }

 protected:
  Entry entryAt(const std::string& real_path) const override;
  std::optional<std::string> readAt(const std::string& real_path, std::size_t most) const override;
  std::vector<std::string> listAt(const std::string& real_path) const override;

 private:
  const sysfs::FileTree& tree_;
  mutable sysfs::MemoryTree copy_{"what was read"};
};

// Makes a copy of a machine's files unreadable where it could tell strangers who the machine is. Pure;
// thread-safe.

// IPv4, IPv6 and MAC addresses, GUIDs and the host's name become numbered stand-ins ("10.0.0.7",
// "0200:0000:0000:0007"); equal ones stay equal, and link-local addresses stay link-local. Values of
// variables that may hold a secret (KEY, TOKEN, SECRET, PASS in the name), another host (MASTER_ADDR) or the
// name of a person (HOME) become "masked".
sysfs::MemoryTree masked(const sysfs::MemoryTree& tree);

}  // namespace railwise::doctor
