// The requests between ibv_wr_start and ibv_wr_complete (ibv_wr_post(3)). Made for queue pairs with send
// operations; guarded by the QP's SendLock (datapath.h), which wr_start takes and wr_complete or wr_abort
// gives back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "softdev/queues/objects.h"

namespace railwise::softdev {

class SendBuilder {
 public:
  void clear();
  // The request that the functions below complete. Its wr_id and flags are those of the QP at this time.
  ibv_send_wr& add(const ibv_qp_ex& qp, ibv_wr_opcode opcode);
  // Of the last request; a mistake when there is none.
  ibv_send_wr* last();
  void addSges(const ibv_sge* list, size_t count);
  void addInline(const ibv_data_buf* list, size_t count, uint32_t most);
  void fail(int error) {
    if (error_ == 0) error_ = error;
  }
  int error() const { return error_; }
  bool empty() const { return requests_.empty(); }
  // All requests as one chain; null when there are none. Valid until clear().
  ibv_send_wr* chain();

 private:
  std::vector<ibv_send_wr> requests_;  // sg_list is set by chain()
  std::vector<ibv_sge> sges_;
  std::vector<std::byte> payload_;  // of inline requests: their SGEs hold places in it until chain()
  int error_ = 0;
};

// The operations that may be asked for in ibv_qp_init_attr_ex.send_ops_flags.
uint64_t sendOperations(ibv_qp_type type, bool iwarp);
// Fills in the functions of the QP; those not in `operations` fail when called.
void setSendOperations(Qp& qp, uint64_t operations);

}  // namespace railwise::softdev
