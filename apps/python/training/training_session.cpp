#include "apps/python/training/training_session.hpp"

#include <filesystem>
#include <system_error>
#include <utility>

#include "apps/checkpoint/companions.hpp"
#include "apps/plan/plan_costs.hpp"
#include "checkpoint/convert/folder_contents.hpp"
#include "core/system_error.hpp"
#include "models/cuda/open.hpp"

namespace troupe::apps {

actors::session_hooks training_session::hooks() {
  const auto goes_on = [this] { return goes_on_ == nullptr || goes_on_(); };
  actors::session_hooks out;
  out.on_warning = [this](const std::string& line) { warnings_.push_back(line); };
  out.on_log = [this](const std::string& line) { lines_.push_back(line); };
  out.on_reading = [goes_on](const data::reading_progress&) { return goes_on(); };
  out.on_opening = [goes_on](const actors::opening_progress&) { return goes_on(); };
  out.on_saved = [this](const actors::save_report& r) {
    if (kept_ != nullptr) kept_->note_save(r);
  };
  return out;
}

/// Chooses the degrees that the configuration leaves open.
core::result<void> training_session::choose_degrees(const std::optional<job::model_of_kept>& kept) {
  if (loaded_->config.open_degrees.empty()) return {};
  actors::session_options options{.config = std::make_shared<const config::job_config>(loaded_->config)};
  options.hooks = hooks();
  options.kept_costs = kept;
  TROUPE_ASSIGN(const auto chosen, actors::session::choose_degrees(options));
  config::take_degrees(chosen.taken, *loaded_);
  return {};
}

core::result<void> training_session::open_session(const session_wishes& wishes) {
  TROUPE_ASSIGN(auto kept, kept_costs_of(loaded_->config));
  TROUPE_TRY(choose_degrees(kept));
  const auto config = std::make_shared<const config::job_config>(loaded_->config);
  actors::session_options options{.config = config, .hooks = hooks(), .kept_costs = std::move(kept)};
  if (wishes.keeps_folder) {
    kept_ = std::make_unique<kept_run>(*loaded_, wishes.kept,
                                       [this](const std::string& line) { warnings_.push_back(line); });
    TROUPE_ASSIGN(auto start, kept_->choose_start());
    options.resume = std::move(start.path);
    options.load = std::move(start.load);
  } else if (!config->checkpoint.load.path.empty()) {
    options.resume = checkpoint::checkpoints_below(config->checkpoint.load.path);
    options.load = load_options_of(config->checkpoint.load);
  }
  auto opened = actors::session::open(std::move(options));
  if (!opened) return core::fail(kept_ == nullptr ? opened.error() : kept_->explained(opened.error()));
  session_ = std::move(*opened);
  if (kept_ != nullptr) return kept_->begin(*session_);
  // Traces and reports are written only into a folder that exists.
  std::error_code failed;
  if (config->telemetry.report || config->telemetry.traces(config->steps))
    std::filesystem::create_directories(config->output, failed);
  if (failed) return core::fail(core::path_error("create", config->output, failed.value()));
  return {};
}

core::result<void> training_session::open(const job_settings& settings, const session_wishes& wishes,
                                          const go_on& goes_on) {
  TROUPE_ASSIGN(auto loaded, load_job(settings));
  loaded_.emplace(std::move(loaded));
  for (const auto& warning : loaded_->warnings) warnings_.push_back(warning.render());
  // CUDA is opened before any other use of LibTorch, which checks only once whether CUDA is available.
  const auto& config = loaded_->config;
  if (config.device == core::device_kind::cuda)
    TROUPE_TRY(models::open_cuda(wishes.programs, config.cuda.devices.front()));
  goes_on_ = goes_on;
  auto did = open_session(wishes);
  goes_on_ = {};
  if (!did) close();
  return did;
}

void training_session::close() {
  session_.reset();
  kept_.reset();
}

core::result<actors::step_report> training_session::step() {
  auto did = session_->step();
  if (did && kept_ != nullptr) kept_->note_step(*did, *session_);
  return did;
}

core::result<std::optional<double>> training_session::evaluate(uint64_t batches, const std::string& set,
                                                               const go_on& goes_on) {
  TROUPE_ASSIGN(const auto did, session_->evaluate({.batches = batches, .set = set, .go_on = goes_on}));
  if (did.ended_early) return std::optional<double>();
  if (kept_ != nullptr) kept_->note_evaluation(session_->steps_done(), did.loss);
  return std::optional<double>(did.loss);
}

core::result<void> training_session::export_hugging_face(const std::string& folder, uint64_t max_shard_bytes) {
  TROUPE_TRY(session_->export_hugging_face(folder, max_shard_bytes));
  TROUPE_ASSIGN(const auto missing, copy_companions(loaded_->config, folder));
  if (!missing.empty()) warnings_.push_back("export_hugging_face: " + missing);
  return {};
}

}  // namespace troupe::apps
