// Protection domains and memory regions (softdev.h).
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>

#include "base/log.h"
#include "softdev/fabric/tables.h"
#include "softdev/faults/verb_faults.h"
#include "softdev/memory/agent.h"
#include "softdev/memory/mover.h"
#include "softdev/memory/remap.h"
#include "softdev/memory/shared_memory.h"
#include "softdev/queues/objects.h"
#include "softdev/queues/responder.h"

namespace railwise::softdev {
namespace {

constexpr unsigned kRemote = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
constexpr unsigned kNeedLocalWrite = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
constexpr unsigned kAccepted = IBV_ACCESS_LOCAL_WRITE | kRemote;

// The access flags without those that a device may ignore.
constexpr unsigned essential(unsigned access) { return access & ~unsigned{IBV_ACCESS_OPTIONAL_RANGE}; }

constexpr bool consistent(unsigned access) {
  return (access & kNeedLocalWrite) == 0 || (access & IBV_ACCESS_LOCAL_WRITE) != 0;
}

// Returns 0, or the errno with which registration of this range must fail.
int checkRegion(const ibv_pd* pd, const void* addr, size_t length, unsigned access) {
  if (pd == nullptr || length == 0) return EINVAL;
  if ((essential(access) & ~kAccepted) != 0) return EOPNOTSUPP;
  if (!consistent(access)) return EINVAL;
  const auto first = reinterpret_cast<uint64_t>(addr);
  if (first + length < first) return EINVAL;
  const auto* last = reinterpret_cast<const void*>(first + length - 1);  // NOLINT: `addr` may be null
  return isMapped(addr, 1) && isMapped(last, 1) ? 0 : EFAULT;
}

// Waits until no transfer is under way that may have resolved a key of this PD.
void quiesce(Context& context, const ibv_pd* pd) {
  std::lock_guard lock(context.objects);
  for (Qp* qp : context.qps) {
    const ibv_srq* srq = qp->qp_base.srq;
    if (qp->qp_base.pd != pd && (srq == nullptr || srq->pd != pd)) continue;
    qp->sq_lock.lock();
    qp->sq_lock.unlock();
    ResponderGuard responder(*qp->fabric, *qp->record);
  }
}

// Publishes how peers can map the region, if they can.
std::shared_ptr<BackingFile> share(const Context& context, MrRecord& record) {
  const uint64_t address = record.address.load(std::memory_order_relaxed);
  const uint64_t length = record.length.load(std::memory_order_relaxed);
  const bool writing = (record.access.load(std::memory_order_relaxed) & IBV_ACCESS_LOCAL_WRITE) != 0;
  uint64_t offset = 0;
  std::shared_ptr<BackingFile> backing = findBacking(address, length, writing, &offset);
  if (backing == nullptr && context.config_device->config.mover == MoverChoice::kRemap &&
      remapPrivate(address, length))
    backing = findBacking(address, length, writing, &offset);
  publishBacking(record, backing.get(), offset);
  return backing;
}

// Some memory of devices is accessible only to the process itself (a GPU's driver gives programs such host
// memory). For peers our agent copies it.
void helpPeers(Fabric& fabric, void* addr, size_t length) {
  char bytes[2];
  iovec here{bytes, sizeof bytes};
  iovec there[2] = {{addr, 1}, {static_cast<std::byte*>(addr) + length - 1, 1}};
  const ssize_t read = process_vm_readv(getpid(), &here, 1, there, 2, 0);
  if (read == 1 || (read < 0 && errno == EFAULT)) (void)startAgent(fabric);
}

// Makes a region of mapped memory. Null with errno if the table is full.
Mr* publish(ibv_pd* base, void* addr, size_t length, uint64_t iova, unsigned access) {
  Pd& pd = as<Pd>(base);
  Fabric& fabric = *as<Context>(base->context).fabric;
  const uint32_t index = allocateMr(fabric);
  if (index == 0) {
    RAILWISE_WARN(
        "software device: the fabric %s is full (%u memory regions): set fabric=NAME or deregister some",
        fabric.prefix.c_str(), kMaxMrs - 1);
    errno = ENOMEM;
    return nullptr;
  }
  helpPeers(fabric, addr, length);
  MrRecord& record = fabric.segment->mrs[index];
  const uint32_t key = index << 8 | (record.key_byte.load(std::memory_order_relaxed) & 0xff);
  record.pd.store(pd.id, std::memory_order_release);
  record.access.store(access, std::memory_order_release);
  record.iova.store(iova, std::memory_order_release);
  record.address.store(reinterpret_cast<uint64_t>(addr), std::memory_order_release);
  record.length.store(length, std::memory_order_release);
  auto* mr = new Mr{};
  mr->backing = share(as<Context>(base->context), record);
  record.key.store(key, std::memory_order_seq_cst);
  mr->context = base->context;
  mr->pd = base;
  mr->addr = addr;
  mr->length = length;
  mr->handle = index;
  mr->lkey = mr->rkey = key;
  mr->index = index;
  pd.users.fetch_add(1);
  return mr;
}

// A dma-buf reports its size only by lseek(). For a regular file this uses fstat(), because the file position
// belongs to the file's owner.
off_t sizeOf(int fd) {
  struct stat file {};
  return fstat(fd, &file) == 0 && S_ISREG(file.st_mode) ? file.st_size : lseek(fd, 0, SEEK_END);
}

// Where the dma-buf begins in the memory file that stands for it: at the file position. So an exporter can
// export a part of an allocation, although a descriptor cannot name a part of a file.
uint64_t beginOfDmabuf(int fd) {
  struct stat file {};
  if (fstat(fd, &file) != 0 || !S_ISREG(file.st_mode)) return 0;
  const off_t position = lseek(fd, 0, SEEK_CUR);
  return position > 0 ? static_cast<uint64_t>(position) : 0;
}

// Maps the part of a file that a dma-buf region covers. Null with errno on failure. EOPNOTSUPP: such a file
// cannot be mapped.
void* mapFile(int fd, uint64_t offset, size_t length, unsigned access, size_t* bytes) {
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const uint64_t skipped = offset % page;
  const off_t end = sizeOf(fd);
  if (end < 0) {
    errno = EOPNOTSUPP;
    return nullptr;
  }
  if (offset > static_cast<uint64_t>(end) || length > static_cast<uint64_t>(end) - offset) {
    errno = EINVAL;
    return nullptr;
  }
  *bytes = skipped + length;
  const int writable = (access & IBV_ACCESS_LOCAL_WRITE) != 0 ? PROT_WRITE : 0;
  void* mapping =
      mmap(nullptr, *bytes, PROT_READ | writable, MAP_SHARED, fd, static_cast<off_t>(offset - skipped));
  if (mapping != MAP_FAILED) return mapping;
  errno = EOPNOTSUPP;
  return nullptr;
}

}  // namespace

ibv_pd* allocPd(ibv_context* base) {
  Context& context = as<Context>(base);
  if (verbFails(context, Verb::kAllocPd)) return nullptr;
  auto* pd = new Pd{};
  pd->context = base;
  pd->id = context.fabric->segment->next_pd.fetch_add(1, std::memory_order_relaxed);
  pd->handle = pd->id;
  context.pds.fetch_add(1);
  return pd;
}

int deallocPd(ibv_pd* base) {
  if (const int injected = verbFault(as<Context>(base->context), Verb::kDeallocPd); injected != 0)
    return injected;
  Pd& pd = as<Pd>(base);
  if (pd.users.load() != 0) return EBUSY;
  as<Context>(base->context).pds.fetch_sub(1);
  delete &pd;
  return 0;
}

ibv_mr* regMr(ibv_pd* pd, void* addr, size_t length, int access) {
  return regMrIova2(pd, addr, length, reinterpret_cast<uint64_t>(addr), static_cast<unsigned>(access));
}

ibv_mr* regMrIova2(ibv_pd* base, void* addr, size_t length, uint64_t iova, unsigned access) {
  if (base != nullptr && verbFails(as<Context>(base->context), Verb::kRegMr)) return nullptr;
  if (const int error = checkRegion(base, addr, length, access); error != 0) {
    errno = error;
    return nullptr;
  }
  return publish(base, addr, length, iova, access);
}

ibv_mr* regDmabufMr(ibv_pd* base, uint64_t offset, size_t length, uint64_t iova, int fd, int flags) {
  const auto access = static_cast<unsigned>(flags);
  if (base != nullptr && verbFails(as<Context>(base->context), Verb::kRegDmabufMr)) return nullptr;
  if (base != nullptr && !as<Context>(base->context).config_device->config.dmabuf) {
    errno = EOPNOTSUPP;
    return nullptr;
  }
  if (fcntl(fd, F_GETFD) < 0)
    return nullptr;  // EBADF comes first, because programs probe for dma-buf with a bad descriptor
  if (base == nullptr || length == 0 || (essential(access) & ~kAccepted) != 0 || !consistent(access)) {
    errno = base != nullptr && (essential(access) & ~kAccepted) != 0 ? EOPNOTSUPP : EINVAL;
    return nullptr;
  }
  size_t bytes = 0;
  void* mapping = mapFile(fd, beginOfDmabuf(fd) + offset, length, access, &bytes);
  if (mapping == nullptr) return nullptr;
  Mr* mr = publish(base, static_cast<std::byte*>(mapping) + (bytes - length), length, iova, access);
  if (mr == nullptr) {
    munmap(mapping, bytes);
    return nullptr;
  }
  mr->mapping = mapping;
  mr->mapping_bytes = bytes;
  mr->addr = reinterpret_cast<void*>(offset);  // NOLINT: what ibv_reg_dmabuf_mr() says there
  return mr;
}

// Returns an ibv_rereg_mr_err_code and sets errno. The keys stay. Work requests in flight see the old region
// or fail; those executed later see the new region.
int reregMr(ibv_mr* base, int flags, ibv_pd* pd, void* addr, size_t length, int access) {
  if (const int injected = verbFault(as<Context>(base->context), Verb::kReregMr); injected != 0)
    return injected;
  const bool moves = (flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0;
  const bool changes_pd = (flags & IBV_REREG_MR_CHANGE_PD) != 0;
  const bool changes_access = (flags & IBV_REREG_MR_CHANGE_ACCESS) != 0;
  if ((flags & ~IBV_REREG_MR_FLAGS_SUPPORTED) != 0 || (moves && (addr == nullptr || length == 0)) ||
      (changes_pd && (pd == nullptr || pd->context != base->context)) || (access != 0 && !changes_access)) {
    errno = EINVAL;
    return IBV_REREG_MR_ERR_INPUT;
  }
  Mr& mr = as<Mr>(base);
  if (mr.mapping != nullptr) {
    errno = EOPNOTSUPP;
    return IBV_REREG_MR_ERR_INPUT;
  }
  Context& context = as<Context>(base->context);
  MrRecord& record = context.fabric->segment->mrs[mr.index];
  const unsigned new_access =
      changes_access ? static_cast<unsigned>(access) : record.access.load(std::memory_order_relaxed);
  const int error = checkRegion(mr.pd, moves ? addr : mr.addr, moves ? length : mr.length, new_access);
  if (error != 0 || context.fabric->forgotten) {
    errno = error != 0 ? error : EIO;
    return IBV_REREG_MR_ERR_CMD;
  }
  record.key.store(0, std::memory_order_seq_cst);
  quiesce(context, mr.pd);
  record.access.store(new_access, std::memory_order_release);
  if (changes_pd) {
    as<Pd>(pd).users.fetch_add(1);
    as<Pd>(mr.pd).users.fetch_sub(1);
    mr.pd = pd;
    record.pd.store(as<Pd>(pd).id, std::memory_order_release);
  }
  if (moves) {
    mr.addr = addr;
    mr.length = length;
    helpPeers(*context.fabric, addr, length);
    record.iova.store(reinterpret_cast<uint64_t>(addr), std::memory_order_release);
    record.address.store(reinterpret_cast<uint64_t>(addr), std::memory_order_release);
    record.length.store(length, std::memory_order_release);
  }
  mr.backing = share(context, record);
  record.key.store(mr.lkey, std::memory_order_seq_cst);
  return 0;
}

int deregMr(ibv_mr* base) {
  if (const int injected = verbFault(as<Context>(base->context), Verb::kDeregMr); injected != 0)
    return injected;
  Mr& mr = as<Mr>(base);
  Context& context = as<Context>(base->context);
  if (!context.fabric->forgotten) {
    releaseMr(*context.fabric, mr.index);
    quiesce(context, mr.pd);
  }
  if (mr.mapping != nullptr) munmap(mr.mapping, mr.mapping_bytes);
  as<Pd>(mr.pd).users.fetch_sub(1);
  delete &mr;
  return 0;
}

}  // namespace railwise::softdev
