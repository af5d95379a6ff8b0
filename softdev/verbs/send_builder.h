// Collects the requests between ibv_wr_start and ibv_wr_complete (ibv_wr_post(3)). Exists for queue pairs
// with send operations. The QP's SendLock (datapath.h) guards it: wr_start takes the lock, wr_complete or
// wr_abort releases it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "softdev/queues/objects.h"

namespace railwise::softdev {

class SendBuilder {
 public:
  void clear();
  // Adds a request, which the functions below complete. The request takes the current wr_id and flags of the
  // QP.
  ibv_send_wr& add(const ibv_qp_ex& qp, ibv_wr_opcode opcode);
  // The last request. If there is none: null, and error() becomes EINVAL.
  ibv_send_wr* last();
  void addSges(const ibv_sge* list, size_t count);
  void addInline(const ibv_data_buf* list, size_t count, uint32_t most);
  void fail(int error) {
    if (error_ == 0) error_ = error;
  }
  int error() const { return error_; }
  bool empty() const { return requests_.empty(); }
  // All requests as one chain, valid until clear(). Null if there are none.
  ibv_send_wr* chain();

 private:
  std::vector<ibv_send_wr> requests_;  // chain() sets their sg_list
  std::vector<ibv_sge> sges_;
  std::vector<std::byte> payload_;  // data of inline requests: until chain(), their SGEs hold offsets into it
  int error_ = 0;
};

// The operations that ibv_qp_init_attr_ex.send_ops_flags may request.
uint64_t sendOperations(ibv_qp_type type, bool iwarp);
// Sets the function pointers of the QP. A function that is not in `operations` fails when it is called.
void setSendOperations(Qp& qp, uint64_t operations);

}  // namespace railwise::softdev
