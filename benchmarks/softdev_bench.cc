// Cost of the software device itself, in one process and one thread: CPU time of a work request with its
// completion. Quiet machine, --benchmark_repetitions=11 --benchmark_report_aggregates_only=true. Between
// processes: softdev_movers_bench.
#include <benchmark/benchmark.h>
#include <infiniband/verbs.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "softdev/softdev.h"

namespace railwise::softdev {
namespace {

constexpr int kDepth = 64;

// A queue pair, connected to another of the same device; `buffer` serves both.
struct End {
  End(ibv_pd* pd, ibv_cq* cq) {
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq;
    init.cap = {2 * kDepth, 2 * kDepth, 4, 4, 64};
    init.qp_type = IBV_QPT_RC;
    qp = createQp(pd, &init);
  }
  ~End() { destroyQp(qp); }
  End(const End&) = delete;
  End& operator=(const End&) = delete;

  bool connect(uint32_t peer, uint16_t lid) const {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    if (modifyQp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) != 0)
      return false;
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_4096;
    attr.dest_qp_num = peer;
    attr.max_dest_rd_atomic = 1;
    attr.min_rnr_timer = 12;
    attr.ah_attr.dlid = lid;
    attr.ah_attr.port_num = 1;
    if (modifyQp(qp, &attr,
                 IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                     IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) != 0)
      return false;
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 14;
    attr.retry_cnt = 7;
    attr.rnr_retry = 7;
    attr.max_rd_atomic = 1;
    return modifyQp(qp, &attr,
                    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                        IBV_QP_MAX_QP_RD_ATOMIC) == 0;
  }

  ibv_qp* qp;
};

struct Loop {
  Loop() : buffer(1 << 20) {
    if (!configure(("link=ib,fabric=bench" + std::to_string(getpid())).c_str()).ok()) return;
    int count = 0;
    ibv_device** list = getDeviceList(&count);
    context = openDevice(list[0]);
    freeDeviceList(list);
    pd = allocPd(context);
    send_cq = createCq(context, 4 * kDepth, nullptr, nullptr, 0);
    receive_cq = createCq(context, 4 * kDepth, nullptr, nullptr, 0);
    mr = regMr(pd, buffer.data(), buffer.size(),
               IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
    from = new End(pd, send_cq);
    to = new End(pd, receive_cq);
    ibv_port_attr port{};
    queryPort(context, 1, &port);
    connected = from->connect(to->qp->qp_num, port.lid) && to->connect(from->qp->qp_num, port.lid);
  }
  ~Loop() {
    delete from;
    delete to;
    deregMr(mr);
    destroyCq(send_cq);
    destroyCq(receive_cq);
    deallocPd(pd);
    closeDevice(context);
  }
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  std::vector<std::byte> buffer;
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_cq *send_cq = nullptr, *receive_cq = nullptr;
  ibv_mr* mr = nullptr;
  End *from = nullptr, *to = nullptr;
  bool connected = false;
};

// `chain` requests a post, the last one signalled or all of them; polled as they complete.
void run(benchmark::State& state, ibv_wr_opcode opcode, uint32_t bytes, int chain, bool all_signalled) {
  Loop loop;
  std::vector<ibv_send_wr> wrs(static_cast<size_t>(chain));
  ibv_sge sge{reinterpret_cast<uint64_t>(loop.buffer.data()), bytes, loop.mr->lkey};
  for (int i = 0; i < chain; ++i) {
    ibv_send_wr& wr = wrs[static_cast<size_t>(i)];
    wr.opcode = opcode;
    wr.send_flags = all_signalled || i + 1 == chain ? IBV_SEND_SIGNALED : 0;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.wr.rdma.remote_addr = reinterpret_cast<uint64_t>(loop.buffer.data() + (1 << 19));
    wr.wr.rdma.rkey = loop.mr->rkey;
    wr.next = i + 1 < chain ? &wr + 1 : nullptr;
  }
  const bool receives = opcode == IBV_WR_RDMA_WRITE_WITH_IMM || opcode == IBV_WR_SEND;
  ibv_sge into{reinterpret_cast<uint64_t>(loop.buffer.data() + (1 << 19)), 1 << 18, loop.mr->lkey};
  ibv_recv_wr receive{0, nullptr, &into, 1};
  ibv_recv_wr* bad_receive = nullptr;
  ibv_send_wr* bad_send = nullptr;
  ibv_wc wc[kDepth];
  if (!loop.connected) state.SkipWithError("not connected");
  for (auto _ : state) {
    if (receives) {
      for (int i = 0; i < chain; ++i) ibv_post_recv(loop.to->qp, &receive, &bad_receive);
    }
    if (ibv_post_send(loop.from->qp, wrs.data(), &bad_send) != 0) return state.SkipWithError("post failed");
    const int expected = all_signalled ? chain : 1;
    if (ibv_poll_cq(loop.send_cq, kDepth, wc) != expected || wc[0].status != IBV_WC_SUCCESS)
      return state.SkipWithError("no completion");
    if (receives && ibv_poll_cq(loop.receive_cq, kDepth, wc) != chain)
      return state.SkipWithError("no receive completion");
  }
  state.counters["ns_per_wr"] = benchmark::Counter(static_cast<double>(state.iterations()) * chain,
                                                   benchmark::Counter::kIsRate | benchmark::Counter::kInvert,
                                                   benchmark::Counter::kIs1000);
}

void write8(benchmark::State& state) {
  run(state, IBV_WR_RDMA_WRITE, 8, static_cast<int>(state.range(0)), true);
}
void write8Unsignalled(benchmark::State& state) {
  run(state, IBV_WR_RDMA_WRITE, 8, static_cast<int>(state.range(0)), false);
}
void writeImm8(benchmark::State& state) {
  run(state, IBV_WR_RDMA_WRITE_WITH_IMM, 8, static_cast<int>(state.range(0)), true);
}
void send8(benchmark::State& state) { run(state, IBV_WR_SEND, 8, static_cast<int>(state.range(0)), true); }
void write(benchmark::State& state) {
  run(state, IBV_WR_RDMA_WRITE, static_cast<uint32_t>(state.range(0)), 1, true);
}
BENCHMARK(write8)->Arg(1)->Arg(16);
BENCHMARK(write8Unsignalled)->Arg(16);
BENCHMARK(writeImm8)->Arg(1)->Arg(16);
BENCHMARK(send8)->Arg(1)->Arg(16);
BENCHMARK(write)->Arg(64)->Arg(4096)->Arg(65536);

}  // namespace
}  // namespace railwise::softdev
