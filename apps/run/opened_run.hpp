// Runs a training session from its first step to its last line: steps, evaluations, checkpoints between them, the text
// sample. Owns the figures of the end report. Leaves opening to training.cpp, and display to progress.hpp.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "actors/calibrate.hpp"
#include "actors/session/session.hpp"
#include "apps/base/interrupts.hpp"
#include "apps/base/training/checkpoints.hpp"
#include "apps/base/training/measured_peak.hpp"
#include "apps/base/training/progress.hpp"
#include "apps/base/training/text_sample.hpp"
#include "apps/page/page_state.hpp"
#include "apps/run/degree_schedule.hpp"
#include "apps/run/run_state.hpp"
#include "config/load.hpp"

namespace troupe::apps {

class opened_run {
 public:
  /// Stores its arguments, which must outlive this object; `page` may be null. `is_exported`: the caller exports the
  /// last weights.
  opened_run(actors::session& s, const config::loaded& c, checkpoints& saved, progress& show, run_state& state,
             page_state* page, degree_schedule& degrees, bool is_exported, std::function<void(const std::string&)> say)
      : session_(s),
        config_(c.config),
        loaded_(c),
        saved_(saved),
        show_(show),
        state_(state),
        page_(page),
        degrees_(degrees),
        is_exported_(is_exported),
        say_(std::move(say)),
        peak_([&job = c.config] { return actors::measured_matmul_flops(job); },
              c.config.device == core::device_kind::cpu ? c.config.parallel.ranks() : 1),
        sample_(c.config) {}

  /// Runs the steps; must be called once. Ends after the last step, or when a signal in `stop` has requested the end.
  /// If a step fails, the states are intact, and are saved if checkpoints::keeps_end() is true, unless the error is a
  /// number that is not finite.
  core::result<end_summary> operator()(interrupts& stop);

 private:
  core::result<end_summary> go(interrupts& stop);
  core::result<void> between_steps(interrupts& stop, bool save_asked);
  void rescue();
  void count(const actors::step_report& r);
  void tell_spike(const actors::loss_spike& s);
  core::result<void> evaluate(uint64_t step, const std::function<bool()>& is_over);
  core::result<bool> evaluate_set(const std::string& set, bool is_first, uint64_t step,
                                  const std::function<bool()>& is_over);
  core::result<void> sample();
  void finish();

  actors::session& session_;
  const config::job_config& config_;
  const config::loaded& loaded_;
  checkpoints& saved_;
  progress& show_;
  run_state& state_;
  page_state* page_;  // state of the run's page; null: the run has no page
  degree_schedule& degrees_;
  bool is_exported_;
  std::function<void(const std::string&)> say_;
  end_summary end_;
  double tokens_ = 0, seconds_ = 0;
  uint64_t steps_ = 0;
  // Number of steps done at the last evaluation; nullopt: none was made, or the last one was interrupted
  std::optional<uint64_t> last_evaluated_;
  measured_peak peak_;
  text_sample sample_;
};

}  // namespace troupe::apps
