// Owns bounded copies of everything that a run's page shows: curves are thinned, and only the newest steps, terms and
// lines are kept. All functions may be called on any thread; a reader gets a copy and holds the lock only briefly.
// Leaves the texts to page_texts.hpp.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "actors/session/session.hpp"
#include "apps/base/training/checkpoints.hpp"
#include "telemetry/report/thinned_series.hpp"

namespace troupe::apps {

/// Limits of the stored state: number of steps with spans, of terms, of log lines, and of bytes in a line.
inline constexpr size_t page_steps_max = 4, page_terms_max = 64, page_lines_max = 100, page_line_bytes_max = 400;

/// Facts about a run that stay constant while it lasts.
struct page_facts {
  std::string folder, name, loss_unit, version;
  uint64_t steps = 0;
  uint64_t memory_budget_bytes = 0;  ///< cluster.host_memory_budget of all ranks; 0: no budget
};

struct page_spans {  ///< start and end of the instructions of one step
  uint64_t step = 0;
  std::shared_ptr<const std::vector<telemetry::rank_spans>> ranks;
};

struct page_line {  ///< a line of the run's log
  double unix_s = 0;
  std::string text;
};

struct page_copy {  ///< copy of the whole state at one moment
  page_facts facts;
  double started_unix_s = 0;
  std::optional<actors::step_report> last;  ///< report of the last step; empty until a step has ended
  std::optional<double> validation_loss;
  /// Numbers of tokens, of steps and of skipped steps in this process, including repeated steps.
  uint64_t tokens = 0, steps_run = 0, skipped = 0;
  telemetry::thinned_series loss, validation, tokens_per_s, step_s;
  std::deque<page_spans> spans;
  std::deque<actors::term_report> terms;
  uint64_t num_terms = 0, steps_again = 0;
  double lost_s = 0;
  uint64_t num_spikes = 0, samples_left_out = 0;  ///< numbers of loss spikes and of left-out samples in this process
  std::optional<actors::save_report> checkpoint;
  uint64_t num_checkpoints = 0;
  std::vector<actors::rank_memory_report> memory;  ///< memory reports, one per rank in the order of ranks
  std::deque<page_line> lines;
};

class page_state {
 public:
  explicit page_state(page_facts facts);

  // ---- Functions that the run calls
  void begin(const std::string& loss_unit);
  void spans(uint64_t step, std::shared_ptr<const std::vector<telemetry::rank_spans>> ranks);
  void step(const actors::step_report& r);
  void memory(std::vector<actors::rank_memory_report> ranks);
  void evaluation(uint64_t step, double loss);
  void term(const actors::term_report& t);
  void spike(const actors::loss_spike& s);
  void checkpoint(const actors::save_report& e);
  void line(const std::string& text);

  // ---- Function that the page calls
  [[nodiscard]] page_copy copy() const;

 private:
  void add_line(const std::string& text);  // appends a line to the log; the caller holds the lock

  mutable std::mutex mutex_;
  page_copy all_;
};

}  // namespace troupe::apps
