// An event: the moment when the work of a stream before it is done.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "api.h"
#include "capture.h"
#include "handles.h"
#include "marker.h"

namespace softgpu {

struct GraphNode;

class Event {
 public:
  explicit Event(unsigned flags) : flags_(flags) {}

  // A record begins; the stream finishes the marker. Waits and queries from now on mean this record.
  std::shared_ptr<Marker> begin();
  // Of the last record; null: there was none.
  std::shared_ptr<Marker> last() const;
  bool timed() const { return (flags_ & cudaEventDisableTiming) == 0; }

  // The last record was in a capture, after these nodes. Guarded by captureMutex().
  std::shared_ptr<CaptureSession> captured;
  std::vector<GraphNode*> captured_tail;

 private:
  const unsigned flags_;
  mutable std::mutex mutex_;
  std::shared_ptr<Marker> last_;
};

HandleTable<cudaEvent_t, Event>& events();

// What cudaEventRecordWithFlags and cudaStreamWaitEvent do.
cudaError_t recordEvent(const std::shared_ptr<Event>& event, Stream& stream, unsigned flags);
cudaError_t waitEvent(const std::shared_ptr<Event>& event, Stream& stream, unsigned flags);

}  // namespace softgpu
