// Limits ATen to one thread where Troupe calls it, because every lane has one thread and teams of threads change the
// order of sums. Owns the number of threads of the calling thread only; the numbers of a host's threads, present and
// future, stay unchanged.
#pragma once

namespace troupe::actors {

/// While this object exists, ATen computes with one thread in calls from the calling thread. Must be destroyed on the
/// thread that created it.
class one_aten_thread {
 public:
  one_aten_thread();
  ~one_aten_thread();
  one_aten_thread(const one_aten_thread&) = delete;
  one_aten_thread& operator=(const one_aten_thread&) = delete;

 private:
  int before_;
};

/// Limits ATen to the calling thread for as long as that thread exists; for a lane's own thread. Calls after the first
/// cost nothing.
void keep_to_one_aten_thread();

}  // namespace troupe::actors
