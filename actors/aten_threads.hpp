// Limits ATen to one thread where Troupe calls it, because every lane has one thread of its own and because several
// threads would change the order of sums. Changes the number of threads of the calling thread only; the embedding
// program's own threads, present and future, keep theirs.
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

/// Makes ATen compute with one thread in all later calls from the calling thread, until that thread ends. A lane calls
/// this on its own thread; calls after the first return at once.
void keep_to_one_aten_thread();

}  // namespace troupe::actors
