// What `troupe train` shows while a run is being opened: nothing of what takes less than a glance. Owns when and how;
// what is told is the session's.
#pragma once

#include <chrono>
#include <string>

#include "actors/session/opening_progress.hpp"
#include "apps/base/interrupts.hpp"
#include "apps/base/output_form.hpp"
#include "data/documents.hpp"

namespace troupe::apps {

/// A phase that takes longer is named.
inline constexpr std::chrono::seconds opening_glance{2};
/// Between two lines of a log; a terminal's line is written over.
inline constexpr std::chrono::seconds opening_line_interval{10};

class opening_display {
 public:
  explicit opening_display(verbosity said);
  ~opening_display() { clear(); }
  opening_display(const opening_display&) = delete;
  opening_display& operator=(const opening_display&) = delete;

  void show(const actors::opening_progress& p);
  /// Leaves the terminal's line, so that ordinary output may follow.
  void clear();

 private:
  using clock = std::chrono::steady_clock;
  bool quiet_, terminal_, drawn_ = false;
  std::string phase_;
  clock::time_point begin_ = clock::now(), next_;
};

/// How far a text is read: a line that is written over on a terminal, nothing elsewhere. False once somebody wants to
/// stop.
bool show_reading(const data::reading_progress& p, const interrupts& stop);

}  // namespace troupe::apps
