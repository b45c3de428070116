#include "actors/run/spike_guard.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "actors/run/training_run.hpp"
#include "checkpoint/commit/commit.hpp"
#include "checkpoint/native/manifest_file.hpp"
#include "core/text.hpp"
#include "data/skips.hpp"

namespace troupe::actors {
namespace {

std::string sentence_of(const step_report& r, const job::judged_loss& judged) {
  std::string out = fmt::format("the loss of step {} is {}", r.step, core::number_text(r.loss));
  if (!std::isfinite(r.loss)) return out;
  if (r.skipped) return out + ", and its gradient is not finite";
  return out + fmt::format(", {:.2f} times the median of those before it, {}", r.loss / judged.usual,
                           core::number_text(judged.usual));
}

std::vector<data::step_span> asked_of(const config::job_config& c) {
  std::vector<data::step_span> out;
  for (const auto& x : c.data.skip) out.push_back({x.first, x.last});
  return out;
}

/// True if the states of checkpoint `run` belong to this run's history: all samples that the run has left out since
/// then come after the samples that those states were trained on. (A run that went back leaves checkpoints of undone
/// steps in its folder.)
bool is_before(const checkpoint::run_state& run, const std::vector<core::left_out_steps>& left_out) {
  const data::left_out then{std::span<const core::left_out_steps>(run.left_out)};
  const uint64_t next = run.data_position == 0 ? 0 : then.position_of(run.data_position - 1) + 1;
  return std::ranges::all_of(left_out, [&](const auto& x) {
    return std::ranges::find(run.left_out, x) != run.left_out.end() || x.samples.front().begin >= next;
  });
}

uint64_t samples_of(const core::left_out_steps& x) {
  uint64_t n = 0;
  for (const auto& range : x.samples) n += range.size();
  return n;
}

}  // namespace

void spike_guard::add_place(place made) {
  std::erase_if(places_, [&](const place& x) { return x.step >= made.step || x.path == made.path; });
  places_.push_back(std::move(made));
}

core::result<std::vector<core::left_out_steps>> spike_guard::decide_left_out(std::vector<core::left_out_steps> recorded,
                                                                             uint64_t first_step,
                                                                             uint64_t first_sample) const {
  auto shape = run_.term->loader.shape;
  shape.first_step = first_step;
  shape.first_sample = first_sample;
  return data::decide_left_out(asked_of(*run_.term->plan.config), std::move(recorded), shape);
}

core::result<void> spike_guard::leave_out_from_the_start() {
  TROUPE_ASSIGN(auto decided, decide_left_out({}, 0, 0));
  leave_out(std::move(decided));
  return {};
}

void spike_guard::leave_out(std::vector<core::left_out_steps> decided) {
  run_.term->loader.shape.skipped = data::left_out(std::span<const core::left_out_steps>(decided));
  run_.progress.left_out = std::move(decided);
}

core::result<loss_spike> spike_guard::answer(const step_report& report) {
  const auto& how = run_.term->plan.config->on_spike;
  const std::string what = sentence_of(report, run_.progress.judged);
  // Waits for a save in progress, because it may contain the state before this step, to which the run goes back.
  (void)run_.saves.collect(unfinished_save::wait);
  run_.saves.forget_unproved();
  const auto end_with = [&](const std::string& why) {
    const auto& all = places_;
    const std::string newest = all.empty() ? "; there is no checkpoint of this run"
                                           : fmt::format("; the newest checkpoint, of step {}, is '{}'",
                                                         all.back().step, all.back().path.string());
    run_.over.why = core::error{error_kind::numeric, fmt::format("{}: {}{}", what, why, newest)};
    return core::fail(*run_.over.why);
  };
  if (!how.skips()) return end_with("the run ends (on_spike.action: stop)");
  const auto times =
      static_cast<uint64_t>(std::ranges::count(run_.progress.left_out, true, &core::left_out_steps::after_spike));
  if (times >= how.times_max)
    return end_with(
        fmt::format("the run has gone back {} times already, as often as on_spike.times_max allows", times));

  loss_spike out{.step = report.step, .loss = report.loss, .usual = run_.progress.judged.usual, .times = times + 1};
  uint64_t newest = report.step - std::min(report.step, how.back_steps);
  auto earlier = places_;
  const auto reaches = [&earlier](uint64_t step) {
    return std::ranges::any_of(earlier, [step](const auto& x) { return x.step <= step; });
  };
  // If the first step after a return spikes again, the weights to which the run has returned may be the cause: an older
  // place is tried, if there is one.
  if (returned_to_ && report.step == *returned_to_ + 1 && *returned_to_ > 0) {
    const uint64_t before = std::min(newest, *returned_to_ - 1);
    if (!reaches(before)) add_older_places(earlier, before);
    if (reaches(before)) newest = before;
  }
  if (!reaches(newest)) add_older_places(earlier, newest);
  std::erase_if(earlier, [&](const auto& x) { return x.step > newest; });
  auto disk = earlier;
  const auto without = [&, before = run_.progress.left_out, shape = run_.term->loader.shape](uint64_t back_to) {
    auto all = before;
    auto& mine = all.emplace_back(data::taken_by(shape, {back_to + 1, report.step + how.ahead_steps}));
    mine.after_spike = true;
    out.first = mine.first;
    out.last = mine.last;
    out.samples = samples_of(mine);
    return all;
  };
  for (;;) {
    const auto kept = run_.others->saved_in_memory();
    if (kept && *kept <= newest && *kept > 0 && (disk.empty() || *kept >= disk.back().step)) {
      TROUPE_TRY(run_.others->go_back_in_memory(without(*kept), what));
      out.from_memory = true;
      break;
    }
    if (disk.empty())
      return end_with(
          fmt::format("on_spike.action: skip needs a saved state of step {} or of an earlier one, got none", newest));
    const auto to = std::move(disk.back());
    disk.pop_back();
    TROUPE_ASSIGN(const auto did, go_back_on_disk(to, without(to.step)));
    if (!did) continue;
    out.folder = to.path;
    break;
  }
  out.back_to = run_.progress.steps;
  returned_to_ = out.back_to;
  std::erase_if(earlier, [&](const auto& x) { return x.step > out.back_to; });
  places_ = std::move(earlier);
  return out;
}

// Adds to `to` checkpoints that were written before this session, from the folder of the session's oldest checkpoint,
// up to step `newest`.
void spike_guard::add_older_places(std::vector<place>& to, uint64_t newest) const {
  if (to.empty() || run_.others->files_of_machines() != nullptr) return;
  const auto oldest = to.front();
  std::vector<place> found;
  std::error_code e;
  for (std::filesystem::directory_iterator it(oldest.path.parent_path(), e), end; !e && it != end; it.increment(e)) {
    const auto step = checkpoint::step_of(it->path().filename().string());
    if (!step || *step >= oldest.step || *step > newest) continue;
    const auto there = checkpoint::read_manifest(storage::real_files(), it->path());
    if (there && there->content.run.step == *step && is_before(there->content.run, run_.progress.left_out))
      found.push_back({*step, it->path(), oldest.options});
  }
  std::ranges::sort(found, {}, &place::step);
  to.insert(to.begin(), found.begin(), found.end());
}

core::result<bool> spike_guard::go_back_on_disk(const place& to, std::vector<core::left_out_steps> left_out) {
  load_options options = to.options;
  options.left_out = std::move(left_out);
  const auto did = run_.outlast([&] { return run_.resumer.load_once(to.path, options); });
  if (did) return true;
  // A checkpoint before the damaged one replaces all of its states.
  const bool goes_on =
      !run_.over.why || (!run_.others->are_there() && run_.resumer.may_begin_anew(did.error(), options));
  if (!goes_on) return core::fail(did.error());
  run_.host.warnings->put(
      fmt::format("on_spike: the checkpoint of step {} cannot be loaded: {}", to.step, did.error().text));
  return false;
}

std::vector<std::string> spike_guard::left_out_lines() const {
  std::vector<std::string> out;
  for (const auto& x : run_.progress.left_out)
    out.push_back(fmt::format("{} {}, {} samples, {}", x.first == x.last ? "step" : "steps",
                              x.first == x.last ? fmt::format("{}", x.first) : fmt::format("{}-{}", x.first, x.last),
                              samples_of(x), x.after_spike ? "after a spike of the loss" : "by data.skip"));
  return out;
}

}  // namespace troupe::actors
