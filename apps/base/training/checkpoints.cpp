#include "apps/base/training/checkpoints.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <thread>
#include <utility>

#include "apps/base/exit_code.hpp"
#include "checkpoint/commit/retention.hpp"
#include "checkpoint/native/manifest_file.hpp"
#include "core/clock.hpp"

namespace troupe::apps {
namespace fs = std::filesystem;
namespace {

/// Seconds between the first two attempts to write the last checkpoint, and most seconds between later attempts.
constexpr double retry_pause_s = 0.5, retry_pause_max_s = 10;

/// True if a save ended because ranks or the run ended, and not because writing failed.
bool was_abandoned(const core::error& e) {
  return e.kind == core::error_kind::stopped || e.kind == core::error_kind::peer_lost;
}

/// Returns the text of a loss that is not finite. The sign of a NaN has no meaning and is omitted.
const char* loss_text(double loss) { return std::isnan(loss) ? "nan" : loss > 0 ? "inf" : "-inf"; }

std::string from_before(uint64_t step, const std::string& folder) {
  return fmt::format("the newest checkpoint from before, of step {}, is '{}'", step, folder);
}

}  // namespace

checkpoints::checkpoints(const config::job_config& config, std::string configuration, start_wishes wishes,
                         listeners callbacks)
    : start_(fs::absolute(config.output).lexically_normal() / "checkpoints", config.checkpoint.load, wishes),
      when_(config.checkpoint),
      configuration_(std::move(configuration)),
      callbacks_(std::move(callbacks)) {}

core::result<run_start> checkpoints::choose_start(bool again) {
  if (!when_.tag.empty())
    if (auto ok = checkpoint::check_tag(when_.tag_of(0), 0); !ok) return core::fail(ok.error().in("checkpoint.tag"));
  return start_.choose(callbacks_.on_warning, again);
}

core::result<void> checkpoints::begin(const run_start& start, const actors::session& s) {
  last_begin_ns_ = core::now_ns();
  loss_step_ = s.steps_done();
  if (start.own) saved_step_ = resumed_step_ = s.steps_done();
  asked_ = start.own;
  if (when_.is_on()) TROUPE_TRY(start_.claim(callbacks_.on_warning));
  return start_.begin(start, s.steps_done(), callbacks_.on_warning);
}

void checkpoints::take_over(const actors::session& s) {
  loss_step_ = s.steps_done();
  const auto latest = checkpoint::read_latest(storage::real_files(), start_.root());
  asked_ = latest && *latest;
}

void checkpoints::note_loss(uint64_t step, double loss) {
  loss_step_ = step;
  if (std::isfinite(loss)) {
    bad_.reset();
    return remove_older_than_begin();
  }
  note_bad(step, step - 1, loss, "loss");
  bad_->what = "loss";  // an evaluation may have found the first one
}

void checkpoints::note_evaluation(uint64_t step, double loss) {
  if (!std::isfinite(loss)) return note_bad(step, step, loss, "validation loss");
  proved_step_ = step;
  remove_older_than_begin();
}

void checkpoints::note_failure() {
  note_bad(loss_step_ + 1, loss_step_, std::numeric_limits<double>::quiet_NaN(), "loss");
  bad_->has_failed = true;
}

void checkpoints::note_bad(uint64_t since, uint64_t weights, double loss, const char* what) {
  if (!bad_) bad_ = {.since = since, .weights = weights, .what = what};
  bad_->newest = loss;
}

core::result<void> checkpoints::prove(actors::session& s) {
  const uint64_t step = s.steps_done();
  if (bad_ || proved_step_ == step) return {};
  const auto loss = s.next_loss();
  if (loss && std::isfinite(*loss)) {
    proved_step_ = step;
    remove_older_than_begin();
  } else if (loss) {
    note_bad(step, step, *loss, "loss of a forward pass");
  } else if (loss.error().kind == core::error_kind::numeric) {
    return core::fail(loss.error());
  } else if (loss.error().kind != core::error_kind::stopped) {
    callbacks_.on_warning(
        fmt::format("the loss of the weights of step {} could not be computed: {}", step, loss.error().text));
  }
  return {};
}

core::result<void> checkpoints::prove_last(actors::session& s, bool even_unsaved) {
  const bool is_saved = counts_.written > 0 && saved_step_ == s.steps_done();
  if (!is_saved && !even_unsaved) return {};
  TROUPE_TRY(prove(s));
  // If a process was lost between the save and its proof, the session has forgotten what the save replaces.
  if (is_saved && !bad_ && proved_step_ == s.steps_done()) remove_older_than(s.steps_done());
  return {};
}

// The session removes old checkpoints when a loss proves one that it has saved. The checkpoint that the run began from
// was saved by an earlier process, which may have been killed before the proof.
void checkpoints::remove_older_than_begin() {
  if (const auto step = std::exchange(resumed_step_, std::nullopt)) remove_older_than(*step);
}

void checkpoints::remove_older_than(uint64_t step) {
  // On the disks of several machines, this process would remove only its own machine's part of a checkpoint.
  if (when_.keep_last == 0 || when_.use_node_local_storage) return;
  auto& files = storage::real_files();
  const auto latest = checkpoint::read_latest(files, start_.root());
  if (!latest || !*latest || checkpoint::step_of((*latest)->folder) != step) return;
  const auto kept =
      checkpoint::apply_retention(files, start_.root(), {static_cast<uint32_t>(when_.keep_last), when_.keep_every});
  if (!kept) callbacks_.on_warning("cannot remove old checkpoints: " + kept.error().text);
}

std::string checkpoints::bad_loss_text() const {
  return fmt::format("the {} has been {} since step {}", bad_->what, loss_text(bad_->newest), bad_->since);
}

std::optional<own_checkpoint> checkpoints::newest_unbroken() const {
  return bad_ ? start_.newest_before(bad_->weights) : std::nullopt;
}

std::string checkpoints::newest_good(const sentence_of& sentence) const {
  return newest([&](uint64_t step, const std::string& folder) {
    if (!bad_ || step < bad_->weights) return sentence(step, folder);
    const auto good = newest_unbroken();
    const char* none_left = bad_->has_failed
                                ? "no checkpoint from before is left: resume from this one with a smaller "
                                  "learning rate, or train again"
                                : "no checkpoint from before is left: train again, with a smaller learning "
                                  "rate";
    return fmt::format(
        "the checkpoint of step {}, '{}', has the weights {}; {}", step, folder,
        bad_->has_failed ? "with which the run failed" : "of that loss",
        good ? from_before(good->step, good->folder.string()) + ": resume from that one, with a smaller learning rate"
             : none_left);
  });
}

std::optional<core::error> checkpoints::broken() const {
  if (!bad_) return std::nullopt;
  return core::error{core::error_kind::numeric, fmt::format("{}; {}", bad_loss_text(), newest_good(from_before))};
}

// Reports that no checkpoint is written while the loss is not finite: each time if a user or signal has requested it,
// else once.
void checkpoints::withhold(uint64_t step, moment why) {
  waiting_ = true;
  if (std::exchange(bad_->told, true) && why != moment::asked) return;
  callbacks_.on_warning(
      fmt::format("checkpoint of step {}: left out, as {}; the next one is written once the loss is finite", step,
                  bad_loss_text()));
}

bool checkpoints::is_due(uint64_t step, moment why) const {
  switch (why) {
    case moment::asked:
      return true;
    case moment::rescued:
    case moment::end:
      return keeps_end() || missing_;
    case moment::step:
      break;
  }
  if (when_.every_steps > 0 && step % when_.every_steps == 0) return true;
  return when_.every_minutes > 0 && double(core::now_ns() - last_begin_ns_) >= when_.every_minutes * 60e9;
}

core::result<void> checkpoints::after_step(actors::session& s, moment why) {
  if (why == moment::end || why == moment::rescued) return save_last(s, why);
  if (failure_) return core::fail(*std::exchange(failure_, std::nullopt));
  const uint64_t step = s.steps_done();
  if (saved_step_ == step) return {};
  asked_ = asked_ || why == moment::asked;
  const bool due = is_due(step, why);
  if (!due && !waiting_) return {};
  if (bad_) {
    withhold(step, why);
    return {};
  }
  // A checkpoint that keep_every retains must be the one of exactly this step, so this call waits for the save in
  // progress instead of writing a later step.
  const bool stays = due && when_.keep_every > 0 && step % when_.keep_every == 0 &&
                     when_.when_busy == config::checkpoint_section::busy_policy::wait;
  if (stays && when_.asynchronous) TROUPE_TRY(end_saves(s));
  if (!when_.asynchronous || !s.save_under_way()) {
    if (replaces(step)) TROUPE_TRY(prove(s));
    if (!bad_) return when_.asynchronous ? begin_save(s) : save(s);
    withhold(step, why);
    return {};
  }
  if (why != moment::asked && due && when_.when_busy == config::checkpoint_section::busy_policy::skip) {
    ++counts_.skipped;
    last_begin_ns_ = core::now_ns();
    callbacks_.on_warning(fmt::format("checkpoint of step {}: left out, another is still being written", step));
  } else {
    waiting_ = true;
  }
  return {};
}

// Saves the last states of a run, which exist nowhere else, and retries a failed save. The session repeats a save that
// a lost rank ended; such a save counts as failed here only if the repetition fails, too.
core::result<void> checkpoints::save_last(actors::session& s, moment why) {
  ending_ = true;
  failure_.reset();
  (void)end_saves(s);
  const uint64_t step = s.steps_done();
  if (saved_step_ == step) return {};
  if (!is_due(step, why)) {
    if (why == moment::rescued && asked_by_signal != 0)
      callbacks_.on_warning(
          fmt::format("ended by SIG{} after step {}: nothing is saved, as neither checkpoint.every_steps nor "
                      "checkpoint.every_minutes asks for it",
                      ::sigabbrev_np(asked_by_signal), step));
    return {};
  }
  if (replaces(step)) TROUPE_TRY(prove(s));
  if (bad_) return {};  // the run ends with the error of broken()
  const double until_s = double(core::now_ns()) / 1e9 + when_.retry_for_s;
  for (double pause_s = retry_pause_s;; pause_s = std::min(2 * pause_s, retry_pause_max_s)) {
    (void)save(s);
    if (saved_step_ == step) return {};
    const double left_s = until_s - double(core::now_ns()) / 1e9;
    if (!s.may_save() && why == moment::end) return core::fail(*missing_);
    if (!s.may_save() || left_s <= 0) break;
    callbacks_.on_warning(
        fmt::format("{}; it is tried again for {:.1f} s (checkpoint.retry_for)", missing_->text, left_s));
    std::this_thread::sleep_for(std::chrono::duration<double>(std::min(pause_s, left_s)));
  }
  unsaved_ = core::error{missing_->kind, fmt::format("the last {}; {}", missing_->text, what_is_safe())};
  return {};
}

std::string checkpoints::what_is_safe() const {
  return newest_good(
      [](uint64_t step, const std::string& folder) { return fmt::format("step {} is safe in '{}'", step, folder); });
}

std::string checkpoints::newest(const sentence_of& sentence) const {
  auto& files = storage::real_files();
  const auto latest = checkpoint::read_latest(files, start_.root());
  if (!latest || !*latest) return "no step of this run is in a checkpoint";
  const fs::path folder = start_.root() / (*latest)->folder;
  const auto known = checkpoint::read_manifest(files, folder);
  if (!known) return fmt::format("'{}' cannot be read: {}", folder.string(), known.error().text);
  return sentence(known->content.run.step, folder.string());
}

void checkpoints::went_back(uint64_t step, bool has_one) {
  saved_step_.reset();
  if (has_one) saved_step_ = step;
  waiting_ = false;
  bad_.reset();
  loss_step_ = step;
  proved_step_.reset();
  resumed_step_.reset();
  last_begin_ns_ = core::now_ns();
}

void checkpoints::note_save(const actors::save_report& r) {
  told_step_ = r.step;
  if (r.folder.empty()) {
    if (auto ok = failed(r.step, *r.failure); !ok) failure_ = ok.error();
    return;
  }
  // `saved_step_` is empty if the loss of a rank ended the first attempt of this save and the session has repeated it.
  if (!saved_step_) saved_step_ = r.step;
  missing_.reset();
  if (r.failure) callbacks_.on_warning("cannot remove old checkpoints: " + r.failure->text);
  const double waited = blocking_ ? r.seconds : r.waited_seconds;
  ++counts_.written;
  counts_.bytes += r.bytes;
  counts_.seconds += r.seconds;
  counts_.waited_seconds += waited;
  if (callbacks_.on_written) callbacks_.on_written({r.step, r.folder, r.bytes, r.seconds, waited});
}

bool checkpoints::replaces(uint64_t step) const {
  std::error_code e;
  return !when_.tag.empty() && fs::exists(start_.root() / when_.tag_of(step), e);
}

core::result<actors::save_request> checkpoints::prepare(uint64_t step) {
  saved_step_ = step;
  waiting_ = false;
  last_begin_ns_ = core::now_ns();
  TROUPE_TRY(start_.claim_output(callbacks_.on_warning));
  TROUPE_TRY(start_.claim(callbacks_.on_warning));
  return actors::save_request{.root = start_.root(),
                              .configuration = configuration_,
                              .keep_last = static_cast<uint32_t>(when_.keep_last),
                              .keep_every = when_.keep_every,
                              .exclude_frozen_parameters = when_.exclude_frozen_parameters,
                              .tag = replaces(step) && proved_step_ != step ? std::string() : when_.tag_of(step)};
}

core::result<void> checkpoints::begin_save(actors::session& s) {
  const auto request = prepare(s.steps_done());
  if (!request) return failed(s.steps_done(), request.error());
  if (auto ok = s.save_async(*request); !ok) return failed(s.steps_done(), ok.error());
  return {};
}

core::result<void> checkpoints::save(actors::session& s) {
  const auto request = prepare(s.steps_done());
  if (!request) return failed(s.steps_done(), request.error());
  told_step_.reset();
  blocking_ = true;
  const auto saved = s.save(*request);
  blocking_ = false;
  // An error of the call itself is not reported by on_saved, so it is counted here.
  if (!saved && told_step_ != s.steps_done()) return failed(s.steps_done(), saved.error());
  if (failure_) return core::fail(*std::exchange(failure_, std::nullopt));
  return {};
}

core::result<void> checkpoints::end_saves(actors::session& s) {
  if (!s.save_under_way()) return {};
  const int64_t begin = core::now_ns();
  told_step_.reset();
  const auto ended = s.wait_for_saves();
  counts_.waited_seconds += double(core::now_ns() - begin) / 1e9;
  if (!ended && !told_step_) return failed(s.steps_done(), ended.error());
  if (failure_) return core::fail(*std::exchange(failure_, std::nullopt));
  return {};
}

// Handles a failed save of `step`: counts it once, and warns or returns the error, as checkpoint.on_error says. At the
// end of a run only counts it, because the caller reports the failure.
core::result<void> checkpoints::failed(uint64_t step, const core::error& e) {
  if (std::exchange(failed_step_, step) != step) ++counts_.failed;
  if (saved_step_ == step) saved_step_.reset();
  const std::string what = fmt::format("checkpoint of step {}", step);
  missing_ = e.in(what);
  if (was_abandoned(e)) {
    waiting_ = true;
    callbacks_.on_warning(missing_->text + "; the next one takes its place");
    return {};
  }
  if (ending_) return {};
  if (when_.on_error == config::checkpoint_section::error_policy::stop) return core::fail(*missing_);
  callbacks_.on_warning(fmt::format("{}: {}; the earlier ones stay as they are, the run continues", what, e.text));
  return {};
}

}  // namespace troupe::apps
