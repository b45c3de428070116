// ATen's own threads are off while a session lives: every lane has one thread, and teams change the order of sums.
#pragma once

namespace troupe::actors {

/// While any lives, ATen computes on the caller's thread. The last to go gives ATen back the number it had.
class one_aten_thread {
 public:
  one_aten_thread();
  ~one_aten_thread();
  one_aten_thread(const one_aten_thread&) = delete;
  one_aten_thread& operator=(const one_aten_thread&) = delete;
};

}  // namespace troupe::actors
