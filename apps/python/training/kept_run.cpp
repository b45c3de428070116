#include "apps/python/training/kept_run.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <utility>

#include "apps/base/load_keys.hpp"
#include "apps/base/training/nothing_trained.hpp"
#include "apps/checkpoint/companions.hpp"
#include "apps/run/changed_keys.hpp"
#include "apps/run/export_target.hpp"
#include "apps/run/run_folder.hpp"
#include "core/clock.hpp"
#include "core/dtype.hpp"
#include "job/model/adapters.hpp"

namespace troupe::apps {

namespace fs = std::filesystem;

kept_run::kept_run(const config::loaded& loaded, kept_wishes wishes, std::function<void(const std::string&)> warn)
    : loaded_(loaded),
      config_(loaded.config),
      wishes_(std::move(wishes)),
      warn_(std::move(warn)),
      begin_ns_(core::now_ns()),
      saved_(config_, config::effective_yaml(loaded),
             {wishes_.fresh, wishes_.is_resume_named, load_keys_by_hand(loaded), {}, origin_of_tag(loaded)},
             {warn_,
              [this](const actors::save_report& r) {
                if (!r.folder.empty()) summary_.checkpoint = r.folder;
              }}),
      sample_(config_) {}

core::result<actors::resume_choice> kept_run::choose_start() {
  TROUPE_ASSIGN(auto start, saved_.choose_start());
  start_ = std::move(start);
  return actors::resume_choice{start_.load.path, load_options_of(start_.load)};
}

core::error kept_run::explained(core::error why) const {
  if (start_.own && why.kind == core::error_kind::mismatch) why.text += "; fresh=True begins anew and sets it aside";
  return why;
}

core::result<void> kept_run::check_export_folder(const actors::session& s) const {
  if (wishes_.export_folder.empty()) return {};
  const std::array<read_weights, 4> read{{{"model.path", config_.model.path},
                                          {"model.teacher", config_.model.teacher},
                                          {"lora.from", config_.lora.from},
                                          {"checkpoint.load.path", start_.load.path}}};
  const uint64_t bytes =
      config_.lora.given ? job::adapter_bytes(s.table()) : s.table().numel() * core::size_of(core::dtype::f32);
  return check_export(wishes_.export_folder, bytes, read);
}

core::result<void> kept_run::begin(actors::session& s) {
  const bool is_over = s.steps_done() >= config_.steps;
  if (start_.own && is_over)
    TROUPE_TRY(check_same_job(s.configuration_before(), start_.load.path, s.steps_done(), loaded_));
  TROUPE_TRY(check_export_folder(s));
  // A run without steps left does not open its record files, so that they stay unchanged.
  const auto open_records = [&] { return is_over ? core::result<void>() : s.open_records(); };
  TROUPE_TRY(prepare_output(
      loaded_, s, [this] { return saved_.claim_output(); }, open_records));
  TROUPE_TRY(saved_.begin(start_, s));
  return sample_.prepare(s);
}

void kept_run::note_step(const actors::step_report& r, const actors::session& s) {
  ++summary_.trained;
  summary_.skipped += r.skipped ? 1 : 0;
  if (r.spike) return saved_.went_back(s.steps_done(), !r.spike->from_memory);
  summary_.loss = r.loss;
  saved_.note_loss(r.step, r.loss);
}

void kept_run::note_evaluation(uint64_t step, double loss) {
  // A finite loss of the averages says nothing about the weights.
  if (!config_.ema.evaluate || !std::isfinite(loss)) saved_.note_evaluation(step, loss);
}

core::result<void> kept_run::between_steps(actors::session& s, bool is_asked) {
  using moment = checkpoints::moment;
  return saved_.after_step(s, is_asked ? moment::asked : moment::step);
}

core::result<void> kept_run::end_evaluation(actors::session& s, const std::function<bool()>& goes_on) {
  std::vector<std::pair<std::string, double>> losses;
  for (const std::string& set : s.validation_sets()) {
    if (!goes_on()) return {};
    TROUPE_ASSIGN(const auto did, s.evaluate({.batches = config_.evaluation.batches, .set = set, .go_on = goes_on}));
    if (did.ended_early) return {};
    note_evaluation(s.steps_done(), did.loss);
    losses.emplace_back(set, did.loss);
  }
  summary_.validation_losses = std::move(losses);
  return {};
}

core::result<void> kept_run::export_weights(actors::session& s) {
  if (wishes_.export_folder.empty()) return {};
  if (saved_.broken()) {
    warn_(fmt::format("export: '{}' is not written, because the loss of these weights is not finite",
                      wishes_.export_folder.string()));
    return {};
  }
  TROUPE_TRY(s.export_hugging_face(wishes_.export_folder.string()));
  summary_.exported = wishes_.export_folder;
  TROUPE_ASSIGN(const auto missing, copy_companions(config_, wishes_.export_folder));
  if (!missing.empty()) warn_("export: " + missing);
  return {};
}

core::result<run_summary> kept_run::end(actors::session& s, const std::function<bool()>& goes_on) {
  if (summary_.trained > 0) TROUPE_TRY(saved_.after_step(s, checkpoints::moment::end));
  TROUPE_TRY(end_evaluation(s, goes_on));
  const bool even_unsaved = !wishes_.export_folder.empty() || summary_.trained == 0;
  TROUPE_TRY(saved_.prove_last(s, even_unsaved));
  TROUPE_ASSIGN(auto made, sample_.make(s));
  const auto exported = export_weights(s);
  summary_.steps = s.steps_done();
  summary_.seconds = double(core::now_ns() - begin_ns_) / 1e9;
  summary_.folder = fs::absolute(config_.output).lexically_normal();
  if (summary_.checkpoint.empty() && summary_.trained == 0) summary_.checkpoint = start_.load.path;
  summary_.sample = std::move(made.text);
  summary_.no_sample = std::move(made.missing);
  summary_.report = s.finish({{}, summary_.seconds, config::effective_yaml(loaded_), summary_.sample}).report_file;
  for (const auto& why :
       {saved_.unsaved(), saved_.broken(), nothing_trained(config_, summary_.trained, summary_.skipped, false)})
    if (why) return core::fail(*why);
  if (!exported) return core::fail(exported.error().in("export"));
  return summary_;
}

void kept_run::leave(actors::session& s, const std::optional<core::error>& failure) {
  using moment = checkpoints::moment;
  const bool is_numeric = failure && failure->kind == core::error_kind::numeric;
  if (is_numeric) saved_.note_failure();
  if (!is_numeric && summary_.trained > 0 && saved_.keeps_end() && s.may_save())
    if (auto ok = saved_.after_step(s, failure ? moment::rescued : moment::end); !ok) warn_(ok.error().text);
  if (saved_.unsaved())
    warn_(saved_.unsaved()->text);
  else if (failure && saved_.keeps_end())
    warn_(saved_.what_is_safe());
  s.finish({failure, {}, config::effective_yaml(loaded_), {}});
}

}  // namespace troupe::apps
