// Shows the progress of a long command in one line that is rewritten on a terminal: bytes, rate and remaining time.
// Shows nothing elsewhere. Ends the work when the user interrupts the command.
#pragma once

#include <cstdint>
#include <string>

#include "apps/base/output_form.hpp"
#include "storage/files/progress.hpp"

namespace troupe::apps {

class work_display {
 public:
  work_display(std::string what, verbosity said);
  ~work_display();
  work_display(const work_display&) = delete;
  work_display& operator=(const work_display&) = delete;

  /// Returns the function that the work calls with its progress. This object must outlive the work.
  storage::progress_function progress();
  /// Clears the terminal line with the progress, so that ordinary output can follow.
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
