// A network plugin that does what a test orders, good or bad. The test finds its orders by badPlugin(), in
// the library that the spy has loaded too; in a process of a command BAD_PLUGIN names what it does wrong.
#pragma once

#include <chrono>

namespace railwise::test {

struct Orders {
  bool no_listener = false;       // listen succeeds and makes nothing
  bool leave_request = false;     // isend and irecv do not write *request
  void* request = nullptr;        // what isend and irecv give; null: a new one
  bool not_now = false;           // isend, irecv and iflush give no request
  bool fail = false;              // isend, irecv and test fail
  bool leave_done = false;        // test does not write *done
  int done = 1;                   // what test says
  bool leave_size = false;        // test does not write sizes
  int size = 4;                   // what test says has arrived in each buffer
  bool impossible_speed = false;  // getProperties
  std::chrono::milliseconds isend_takes{0};
  bool isend_hangs = false;  // by std::atomic_ref

  // What the plugin has seen.
  int isends = 0;
  int deregistered = 0;
  void* last_request = nullptr;
  void* consumed = nullptr;
};

}  // namespace railwise::test

extern "C" railwise::test::Orders* badPlugin();
