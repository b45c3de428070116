// Shows the progress of opening a run in `troupe train`; phases shorter than opening_glance are not shown. Owns when
// and how. Leaves the phases to the session.
#pragma once

#include <chrono>
#include <string>

#include "actors/opening/opening_progress.hpp"
#include "apps/base/interrupts.hpp"
#include "apps/base/output_form.hpp"
#include "data/documents.hpp"

namespace troupe::apps {

/// Phases of an opening that are shorter than this are not displayed.
inline constexpr std::chrono::seconds opening_glance{2};
/// Time between two progress lines in a log; on a terminal, one line is rewritten instead.
inline constexpr std::chrono::seconds opening_line_interval{10};

class opening_display {
 public:
  explicit opening_display(verbosity said);
  ~opening_display() { clear(); }
  opening_display(const opening_display&) = delete;
  opening_display& operator=(const opening_display&) = delete;

  void show(const actors::opening_progress& p);
  /// Clears the terminal's line, so that ordinary output can follow.
  void clear();

 private:
  using clock = std::chrono::steady_clock;
  bool quiet_, terminal_, drawn_ = false;
  std::string phase_;
  clock::time_point begin_ = clock::now(), next_;
};

/// Rewrites a line on the terminal that shows how much of the data's text has been read; without a terminal, prints
/// nothing. Returns false once a signal has requested the end of the program.
bool show_reading(const data::reading_progress& p, const interrupts& stop);

}  // namespace troupe::apps
