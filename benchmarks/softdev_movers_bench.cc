// What the software device costs between two processes beside the bare system call it makes. Thread CPU time
// of the poster (the other process sleeps), post_send and poll_cq of one write together; device and bare call
// take turns within one run, so that the ratio survives a busy machine. Usage: softdev_movers_bench [REPEATS]
#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include "softdev/softdev.h"

namespace {

using railwise::softdev::configure;

constexpr size_t kBufferBytes = 1 << 20;

void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "softdev_movers_bench: %s failed\n", what);
  std::_Exit(1);
}

struct Address {
  uint32_t qp_num;
  uint32_t rkey;
  uint64_t memory;
  ibv_gid gid;
};

// One connected end; lives as long as its process.
struct End {
  End(const std::string& config, bool shared) {
    require(configure(config.c_str()).ok(), "configure");
    ibv_device** list = railwise::softdev::getDeviceList(nullptr);
    context = railwise::softdev::openDevice(list[0]);
    railwise::softdev::freeDeviceList(list);
    require(context != nullptr, "openDevice");
    memory = mmap(nullptr, kBufferBytes, PROT_READ | PROT_WRITE,
                  (shared ? MAP_SHARED : MAP_PRIVATE) | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    pd = railwise::softdev::allocPd(context);
    cq = railwise::softdev::createCq(context, 16, nullptr, nullptr, 0);
    mr = railwise::softdev::regMr(pd, memory, kBufferBytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq;
    init.qp_type = IBV_QPT_RC;
    init.cap = {16, 16, 1, 1, 0};
    qp = railwise::softdev::createQp(pd, &init);
    require(memory != MAP_FAILED && mr != nullptr && qp != nullptr, "objects");
    address = {qp->qp_num, mr->rkey, reinterpret_cast<uint64_t>(memory), {}};
    require(railwise::softdev::queryGid(context, 1, 0, &address.gid) == 0, "queryGid");
  }

  void connect(const Address& peer) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
    move(attr, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_4096;
    attr.dest_qp_num = peer.qp_num;
    attr.max_dest_rd_atomic = 1;
    attr.ah_attr.port_num = 1;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.grh.dgid = peer.gid;
    move(attr, IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                   IBV_QP_MIN_RNR_TIMER);
    attr.qp_state = IBV_QPS_RTS;
    move(attr,
         IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
    wr.wr.rdma.remote_addr = peer.memory;
    wr.wr.rdma.rkey = peer.rkey;
  }
  void move(ibv_qp_attr& attr, int mask) const {
    require(railwise::softdev::modifyQp(qp, &attr, IBV_QP_STATE | mask) == 0, "modifyQp");
  }

  void write(uint32_t bytes) {
    sge = {reinterpret_cast<uint64_t>(memory), bytes, mr->lkey};
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = IBV_SEND_SIGNALED;
    ibv_send_wr* bad = nullptr;
    require(ibv_post_send(qp, &wr, &bad) == 0, "post_send");
    ibv_wc wc;
    while (ibv_poll_cq(cq, 1, &wc) == 0) {
    }
    require(wc.status == IBV_WC_SUCCESS, "write");
  }

  ibv_context* context;
  void* memory;
  ibv_pd* pd;
  ibv_cq* cq;
  ibv_mr* mr;
  ibv_qp* qp;
  Address address;
  ibv_sge sge{};
  ibv_send_wr wr{};
};

double cpuNs() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
}

template <typename Operation>
double timeOf(int count, const Operation& operation) {
  const double start = cpuNs();
  for (int i = 0; i < count; ++i) operation();
  return (cpuNs() - start) / count;
}

struct Samples {
  std::vector<double> ns;
  double min() { return *std::min_element(ns.begin(), ns.end()); }
  double median() {
    std::sort(ns.begin(), ns.end());
    return ns[ns.size() / 2];
  }
};

void compare(const char* name, End& end, const Address& peer, pid_t pid, uint32_t bytes, int repeats) {
  const int count = static_cast<int>(std::clamp(40'000'000U / (bytes + 2000), 40U, 4000U));
  Samples bare;
  Samples device;
  std::vector<double> ratios;
  for (int i = 0; i < repeats; ++i) {
    iovec local{end.memory, bytes};
    iovec remote{reinterpret_cast<void*>(peer.memory), bytes};  // NOLINT: an address of the other process
    bare.ns.push_back(timeOf(count, [&] {
      require(process_vm_writev(pid, &local, 1, &remote, 1, 0) == static_cast<ssize_t>(bytes),
              "process_vm_writev");
    }));
    device.ns.push_back(timeOf(count, [&] { end.write(bytes); }));
    ratios.push_back(device.ns.back() / bare.ns.back());
  }
  std::sort(ratios.begin(), ratios.end());
  std::printf("%-14s %8u  %9.0f %9.0f  %9.0f %9.0f  %6.2f\n", name, bytes, bare.min(), bare.median(),
              device.min(), device.median(), ratios[ratios.size() / 2]);
  std::fflush(stdout);
}

// Registration and deregistration of 64 KiB.
void registerRegions(const char* name, End& end, int repeats) {
  Samples both;
  for (int i = 0; i < repeats; ++i) {
    both.ns.push_back(timeOf(500, [&] {
      ibv_mr* mr = railwise::softdev::regMr(end.pd, end.memory, 65536, IBV_ACCESS_LOCAL_WRITE);
      require(mr != nullptr && railwise::softdev::deregMr(mr) == 0, "regMr");
    }));
  }
  std::printf("%-14s registration and deregistration: min %.0f median %.0f\n", name, both.min(),
              both.median());
}

void run(const char* name, const char* devices, bool shared, int repeats) {
  const std::string fabric = "fabric=bench." + std::to_string(getpid());
  const std::string config = fabric + (*devices != 0 ? std::string(";") + devices : "");
  int there[2];
  int back[2];
  require(pipe(there) == 0 && pipe(back) == 0, "pipe");
  const pid_t child = fork();
  if (child == 0) {
    close(there[1]);
    close(back[0]);
    End end(config, shared);
    require(::write(back[1], &end.address, sizeof end.address) == sizeof end.address, "write");
    Address peer{};
    require(read(there[0], &peer, sizeof peer) == sizeof peer, "read");
    end.connect(peer);
    require(::write(back[1], &peer, 1) == 1, "write");
    char nothing;
    (void)!read(there[0], &nothing, 1);  // until the parent leaves
    std::_Exit(0);
  }
  // The parent's half in a process of its own too: each mode configures the device anew.
  const pid_t poster = fork();
  if (poster == 0) {
    close(there[0]);
    close(back[1]);
    Address peer{};
    require(read(back[0], &peer, sizeof peer) == sizeof peer, "read");
    End end(config, shared);
    require(::write(there[1], &end.address, sizeof end.address) == sizeof end.address, "write");
    end.connect(peer);
    char ready;
    require(read(back[0], &ready, 1) == 1, "read");
    for (const uint32_t bytes : {8U, 64U, 4096U, 65536U, 1U << 20})
      compare(name, end, peer, child, bytes, repeats);
    registerRegions(name, end, repeats);
    std::fflush(stdout);
    std::_Exit(0);
  }
  for (const int fd : {there[0], there[1], back[0], back[1]}) close(fd);
  waitpid(poster, nullptr, 0);
  waitpid(child, nullptr, 0);
}

}  // namespace

int main(int argc, char** argv) {
  const int repeats = argc > 1 ? std::max(11, std::atoi(argv[1])) : 15;
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  std::printf("CPU ns per write      bytes  bare: min    median  device: min  median   ratio\n");
  run("private", "", false, repeats);
  run("mover=mem", "mover=mem", false, repeats);
  run("shared", "", true, repeats);
  run("mover=remap", "mover=remap", false, repeats);
  run("mover=agent", "mover=agent", false, repeats);
}
