// One line that says how far a long command is: bytes, rate and time left, written over on a terminal, nothing
// elsewhere. Asks the work to end when the user wants that.
#pragma once

#include <cstdint>
#include <string>

#include "apps/base/output_form.hpp"
#include "checkpoint/files/progress.hpp"

namespace troupe::apps {

class work_display {
 public:
  work_display(std::string what, verbosity said);
  ~work_display();
  work_display(const work_display&) = delete;
  work_display& operator=(const work_display&) = delete;

  /// For the work; this object outlives it.
  checkpoint::progress_function progress();
  /// Takes the line away, so that ordinary output may follow.
  void clear();

  [[nodiscard]] uint64_t done_bytes() const { return done_; }
  [[nodiscard]] double seconds() const;

 private:
  void show(uint64_t done, uint64_t total);

  std::string what_;
  bool shown_, drawn_ = false;
  uint64_t done_ = 0;
  int64_t begin_, next_;
};

}  // namespace troupe::apps
