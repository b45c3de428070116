// ATen's own threads are off where Troupe calls it: every lane has one thread, and teams change the order of sums. Owns
// the number of the calling thread only; those of a host's threads, present and future, stay the host's.
#pragma once

namespace troupe::actors {

/// While it lives, ATen computes on the calling thread alone. Ends on the thread that it began on.
class one_aten_thread {
 public:
  one_aten_thread();
  ~one_aten_thread();
  one_aten_thread(const one_aten_thread&) = delete;
  one_aten_thread& operator=(const one_aten_thread&) = delete;

 private:
  int before_;
};

/// The same for as long as the calling thread lives: for a lane's own thread. Free after the first call.
void keep_to_one_aten_thread();

}  // namespace troupe::actors
