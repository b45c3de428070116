// Handles a loss that has risen too far (`on_spike`): returns the run to an earlier saved state, and leaves out the
// samples of the steps since then. Also decides which other samples are left out. Owns the checkpoints to which the run
// can return and the choice among them; job/loss_watch.hpp decides when a loss is a spike, data/skips.hpp which samples
// steps take.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "actors/loading/load_options.hpp"
#include "actors/run/reports.hpp"
#include "core/error.hpp"

namespace troupe::actors {

struct step_report;
struct training_run;

class spike_guard {
 public:
  /// A checkpoint to which this run can return, and how it is loaded.
  struct place {
    uint64_t step = 0;
    std::filesystem::path path;
    load_options options;
  };

  explicit spike_guard(training_run& run) : run_(run) {}
  spike_guard(const spike_guard&) = delete;
  spike_guard& operator=(const spike_guard&) = delete;

  /// Handles a step whose loss has risen too far: returns the run to a saved state, or ends it. Errors: the run has
  /// ended, because on_spike.action requires it or because there is no state to return to.
  core::result<loss_spike> answer(const step_report& report);

  /// Adds a checkpoint to which the run can return, and removes those of the same or a later step, because the run has
  /// undone these steps.
  void add_place(place made);
  /// Forgets all checkpoints to which the run could return, because it continues from another one.
  void forget_places() { places_.clear(); }

  /// Returns all decisions on left-out samples, for a run that continues after `first_step` steps and `first_sample`
  /// samples: those in `recorded`, and new ones that `data.skip` requires.
  core::result<std::vector<core::left_out_steps>> decide_left_out(std::vector<core::left_out_steps> recorded,
                                                                  uint64_t first_step, uint64_t first_sample) const;
  /// Decides which samples a run that begins at step 0 leaves out, and applies the decision at once.
  core::result<void> leave_out_from_the_start();
  /// Applies the decisions `decided` on left-out samples from now on; the caller must also notify the loader.
  void leave_out(std::vector<core::left_out_steps> decided);
  /// Returns a line of text for each decision on left-out samples.
  [[nodiscard]] std::vector<std::string> left_out_lines() const;

 private:
  void add_older_places(std::vector<place>& to, uint64_t newest) const;
  /// Returns the run to the checkpoint `to`. Returns false if that checkpoint cannot be loaded; the run is then
  /// unchanged, or, after damage that a load has met, must load another checkpoint.
  core::result<bool> go_back_on_disk(const place& to, std::vector<core::left_out_steps> left_out);

  training_run& run_;
  std::optional<uint64_t> returned_to_;  // step to which the run has returned last; nullopt: it has not
  std::vector<place> places_;            // checkpoints to which the run can return, in ascending order of steps
};

}  // namespace troupe::actors
