#include "softdev/endpoint.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <stdexcept>

#include "base/clock.h"
#include "tests/one_device.h"

namespace railwise::softdev::test {
namespace {

void require(bool condition, const char* what) {
  if (!condition) throw std::runtime_error(what);
}

}  // namespace

std::string uniqueFabric() {
  static std::atomic<int> count{0};
  return "test." + std::to_string(getpid()) + "." + std::to_string(count.fetch_add(1));
}

ibv_context* openNamed(const std::string& name) {
  ibv_device** list = getDeviceList(nullptr);
  require(list != nullptr, "getDeviceList");
  ibv_context* context = nullptr;
  for (ibv_device** device = list; *device != nullptr && context == nullptr; ++device) {
    if (name.empty() || name == getDeviceName(*device)) context = openDevice(*device);
  }
  freeDeviceList(list);
  require(context != nullptr, "openDevice");
  return context;
}

OpenDevice::OpenDevice(const std::string& devices, const std::string& fabric) : fabric_(fabric) {
  require(configure(("fabric=" + fabric + ";" + railwise::test::oneDeviceAtLeast(devices)).c_str()).ok(),
          "configure");
  context_ = openNamed("");
}

OpenDevice::~OpenDevice() { closeDevice(context_); }

namespace {
int openSecretMemory() { return static_cast<int>(syscall(SYS_memfd_secret, O_CLOEXEC)); }
}  // namespace

bool haveSecretMemory() {
  const int fd = openSecretMemory();
  if (fd >= 0) close(fd);
  return fd >= 0;
}

Buffer::Buffer(size_t bytes, Memory memory) : bytes_(bytes), memory_(memory) {
  if (memory == Memory::kHeap) {
    begin_ = new std::byte[bytes]{};
    return;
  }
  if (memory == Memory::kMemoryFile || memory == Memory::kSecret) {
    fd_ = memory == Memory::kSecret ? openSecretMemory() : memfd_create("railwise-test", MFD_CLOEXEC);
    require(fd_ >= 0 && ftruncate(fd_, static_cast<off_t>(bytes)) == 0, "memfd_create");
  }
  const int kind = (memory == Memory::kAnonymous ? MAP_PRIVATE : MAP_SHARED) | (fd_ < 0 ? MAP_ANONYMOUS : 0);
  void* mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, kind, fd_, 0);
  require(mapped != MAP_FAILED, "mmap");
  begin_ = static_cast<std::byte*>(mapped);
}

Buffer::~Buffer() {
  if (memory_ == Memory::kHeap) {
    delete[] begin_;
  } else {
    munmap(begin_, bytes_);
    if (fd_ >= 0) close(fd_);
  }
}

Endpoint::Endpoint(ibv_context* device, const Options& chosen)
    : options(chosen), buffer(chosen.buffer_bytes, chosen.memory), context(device) {
  pd = allocPd(context);
  if (options.with_channel) channel = createCompChannel(context);
  cq = options.shared_cq != nullptr ? options.shared_cq : createCq(context, options.cqe, this, channel, 0);
  require(pd != nullptr && cq != nullptr, "allocPd, createCq");
  mr = regMr(pd, buffer.data(), buffer.size(), options.mr_access);
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = cq;
  init.qp_type = IBV_QPT_RC;
  init.sq_sig_all = options.signal_all;
  init.cap = {options.max_send_wr, options.max_recv_wr, options.max_sge, options.max_sge, options.max_inline};
  qp = createQp(pd, &init);
  require(mr != nullptr && qp != nullptr, "regMr, createQp");
}

Endpoint::~Endpoint() {
  destroyQp(qp);
  if (options.shared_cq == nullptr) destroyCq(cq);
  if (channel != nullptr) destroyCompChannel(channel);
  if (mr != nullptr) deregMr(mr);
  deallocPd(pd);
}

Address Endpoint::address() const {
  ibv_port_attr port{};
  Address address{};
  require(queryPort(context, options.port, &port) == 0 &&
              queryGid(context, options.port, options.gid_index, &address.gid) == 0,
          "query");
  address.qp_num = qp->qp_num;
  address.lid = port.lid;
  address.memory = reinterpret_cast<uint64_t>(buffer.data());
  address.rkey = mr->rkey;
  return address;
}

ibv_qp_attr Endpoint::initAttr() const {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = options.port;
  attr.qp_access_flags = options.qp_access;
  return attr;
}

ibv_qp_attr Endpoint::rtrAttr(const Address& remote) const {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = remote.qp_num;
  attr.max_dest_rd_atomic = options.max_dest_rd_atomic;
  attr.rq_psn = options.rq_psn;
  attr.min_rnr_timer = options.min_rnr_timer;
  attr.ah_attr.port_num = options.port;
  attr.ah_attr.dlid = remote.lid;
  attr.ah_attr.is_global = remote.lid == 0 ? 1 : 0;
  attr.ah_attr.grh.dgid = remote.gid;
  attr.ah_attr.grh.sgid_index = options.gid_index;
  return attr;
}

ibv_qp_attr Endpoint::rtsAttr() const {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTS;
  attr.timeout = options.timeout;
  attr.retry_cnt = options.retry_cnt;
  attr.rnr_retry = options.rnr_retry;
  attr.max_rd_atomic = options.max_rd_atomic;
  attr.sq_psn = options.sq_psn;
  return attr;
}

int Endpoint::toInit() {
  ibv_qp_attr attr = initAttr();
  return modifyQp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

int Endpoint::toRtr(const Address& remote) {
  ibv_qp_attr attr = rtrAttr(remote);
  return modifyQp(qp, &attr,
                  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                      IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

int Endpoint::toRts() {
  ibv_qp_attr attr = rtsAttr();
  return modifyQp(qp, &attr,
                  IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                      IBV_QP_MAX_QP_RD_ATOMIC);
}

int Endpoint::toState(ibv_qp_state state) {
  ibv_qp_attr attr{};
  attr.qp_state = state;
  return modifyQp(qp, &attr, IBV_QP_STATE);
}

void Endpoint::connect(const Address& remote) {
  peer = remote;
  require(toInit() == 0 && toRtr(remote) == 0 && toRts() == 0, "connect");
}

ibv_qp_state Endpoint::state() const {
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  require(queryQp(qp, &attr, IBV_QP_STATE, &init) == 0, "queryQp");
  return attr.qp_state;
}

void Endpoint::fill(const Send& send, ibv_send_wr* wr, ibv_sge* sge) const {
  *sge = {reinterpret_cast<uint64_t>(buffer.data()) + send.offset, send.length, mr->lkey};
  *wr = {};
  wr->wr_id = send.wr_id;
  wr->sg_list = sge;
  wr->num_sge = send.length > 0 ? 1 : 0;
  wr->opcode = send.opcode;
  wr->send_flags = send.flags;
  wr->imm_data = send.imm;
  if (send.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
    wr->wr.atomic = {peer.memory + send.remote_offset, send.imm, 0, peer.rkey};
    return;
  }
  wr->wr.rdma.remote_addr = peer.memory + send.remote_offset;
  wr->wr.rdma.rkey = peer.rkey;
}

int Endpoint::send(const Send& request) {
  ibv_sge sge;
  ibv_send_wr wr;
  ibv_send_wr* bad = nullptr;
  fill(request, &wr, &sge);
  return ibv_post_send(qp, &wr, &bad);
}

int Endpoint::receive(uint64_t wr_id, uint64_t offset, uint32_t length) {
  ibv_sge sge{reinterpret_cast<uint64_t>(buffer.data()) + offset, length, mr->lkey};
  ibv_recv_wr wr{wr_id, nullptr, &sge, length > 0 ? 1 : 0};
  ibv_recv_wr* bad = nullptr;
  return ibv_post_recv(qp, &wr, &bad);
}

int Endpoint::sendRounds(const Send& what, uint64_t rounds) {
  for (uint64_t round = 1; round <= rounds; ++round) {
    for (uint64_t at = 0; at < what.length; at += sizeof round) *word(what.offset + at) = round;
    if (const int error = send(what); error != 0) return error;
    if (const ibv_wc_status status = wait().status; status != IBV_WC_SUCCESS) return status;
  }
  return 0;
}

ibv_wc Endpoint::wait() {
  const Deadline deadline = Deadline::after(std::chrono::minutes(1));
  ibv_wc wc{};
  while (!deadline.passed()) {
    const int polled = poll(&wc);
    if (polled == 1) return wc;
    require(polled == 0, "ibv_poll_cq");
    sched_yield();
  }
  throw std::runtime_error("no completion");
}

}  // namespace railwise::softdev::test
