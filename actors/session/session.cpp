#include "actors/session/session.hpp"

#include <algorithm>
#include <utility>

#include "actors/peers/process_peers.hpp"
#include "actors/run/inference.hpp"
#include "actors/run/model_file.hpp"
#include "actors/run/training_run.hpp"
#include "actors/session/state_access.hpp"
#include "data/chat/chat_sample.hpp"
#include "job/measured_costs.hpp"
#include "plan/schedule/text.hpp"

namespace troupe::actors {

namespace {

/// Returns the object by which a run reaches the other processes of its job; in a job of one process, the object does
/// everything in this process.
std::unique_ptr<peers> peers_of(training_run& run, const session_options& options) {
  if (options.process == nullptr) return std::make_unique<peers>(run);
  return std::make_unique<process_peers>(run, options);
}

}  // namespace

session::session(std::unique_ptr<training_run> run) : run_(std::move(run)) {}
session::~session() = default;

core::result<std::unique_ptr<session>> session::open(session_options options) {
  if (options.config == nullptr)
    return core::fail(core::error_kind::bad_input, "session: it was given no configuration");
  if (!options.config->open_degrees.empty()) {
    if (options.process != nullptr)
      return core::fail(core::error_kind::bad_input,
                        "parallel: auto is not possible in a process of a job; call session::choose_degrees before the "
                        "processes are started");
    TROUPE_ASSIGN(const auto degrees, choose_degrees(options));
    options.config = degrees.config;
  }
  TROUPE_ASSIGN(auto run, training_run::open(options, peers_of));
  return std::unique_ptr<session>(new session(std::move(run)));
}

core::result<std::unique_ptr<session>> session::open(std::shared_ptr<const config::job_config> config,
                                                     session_hooks hooks) {
  return open(session_options{std::move(config), std::move(hooks)});
}

// ---- Functions that train

core::result<void> session::open_records() { return run_->recorder.open(); }
session_records session::finish(session_ending ending) { return run_->recorder.finish(std::move(ending)); }
core::result<void> session::record(std::string_view name, double value) {
  return run_->recorder.record_metric(name, value);
}
core::result<step_report> session::step() { return run_->steps.step(); }
core::result<forward_pass> session::forward(const token_batch& batch) { return run_->loop.forward(batch); }
core::result<void> session::backward(uint64_t number, double factor) { return run_->loop.backward(number, factor); }
core::result<void> session::backward(uint64_t number, std::span<const float> gradients) {
  return run_->loop.backward(number, gradients);
}
void session::forget() { run_->loop.forget(); }
void session::stop(const std::string& why) { run_->home.stops.ask(why); }

std::vector<group_values> session::groups() const { return run_->rates.groups(); }
core::result<void> session::set_learning_rate(uint32_t group, double rate) {
  return run_->rates.set_learning_rate(group, rate);
}
core::result<void> session::set_weight_decay(uint32_t group, double weight_decay) {
  return run_->rates.set_weight_decay(group, weight_decay);
}

core::result<void> session::change_degrees(std::shared_ptr<const config::job_config> next) {
  TROUPE_TRY(run_->sound());
  if (next == nullptr)
    return core::fail(core::error_kind::bad_input, "session: it was given no configuration to change its degrees to");
  TROUPE_TRY(check_change(*run_, *next));
  return run_->others->change_degrees(std::move(next));
}

core::result<void> session::compile(std::vector<scheduled_passes> schedule) {
  return run_->passes.compile(std::move(schedule));
}

// ---- Functions that evaluate and generate

core::result<evaluation_report> session::evaluate(const evaluation_request& request) {
  return actors::evaluate(*run_, request);
}

core::result<double> session::evaluate(uint64_t batches) {
  TROUPE_ASSIGN(auto did, evaluate(evaluation_request{.batches = batches}));
  return did.loss;
}

core::result<double> session::next_loss() { return actors::next_loss(*run_); }

core::result<std::vector<int64_t>> session::generate(std::vector<int64_t> prompt, uint64_t tokens, double temperature,
                                                     const std::vector<int64_t>& ends) {
  return actors::generate(*run_, std::move(prompt), tokens, temperature, ends);
}

data::tokenizer* session::tokenizer() const {
  const auto& tokenizer = run_->data.tokenizer();
  if (tokenizer == nullptr) return nullptr;  // a host program's own model has no tokenizer
  // If the tokenizer is the default one (bytes) but the tokens are not bytes, they come from a .bin file without a
  // description, so their text is unknown.
  const bool bytes = tokenizer->description().kind == "bytes";
  return bytes && !run_->data.tokens_are_bytes() ? nullptr : tokenizer.get();
}

bool session::tokens_are_bytes() const { return run_->data.tokens_are_bytes(); }
std::vector<std::string> session::read_sources() const { return run_->data.sentences(); }
std::vector<std::pair<std::string, bool>> session::first_sample() const {
  std::vector<std::pair<std::string, bool>> out;
  for (auto& part : run_->data.first_sample()) out.emplace_back(std::move(part.text), part.counts);
  return out;
}

// ---- Functions that concern the other processes of the job

bool session::leads() const { return run_->others->leads(); }
core::result<void> session::serve() { return run_->others->serve(); }
core::result<void> session::recover() { return run_->others->recover(); }
bool session::has_losses() const { return run_->others->has_losses(); }
const recovery_counts& session::recoveries() const { return run_->others->counts(); }
std::vector<rank_diagnosis> session::diagnose() const { return run_->diagnose(); }

session_actors session::actors() const {
  const auto& all = *run_->term->members;
  session_actors out{all.supervisor, all.agent, all.loader, all.telemetry, {}};
  for (const auto& r : all.ranks) out.ranks.push_back(r->rank);
  return out;
}

// ---- Functions that save, load and export checkpoints

core::result<std::filesystem::path> session::save(const save_request& request) { return run_->saves.save(request); }
core::result<void> session::save_async(const save_request& request) { return run_->saves.begin(request); }
bool session::may_save() const { return run_->saves.may_save(); }
bool session::save_under_way() const { return run_->saves.is_under_way(); }

core::result<void> session::wait_for_saves() {
  return run_->outlast([this] { return run_->saves.end_saves(); });
}

core::result<loaded_checkpoint> session::load(const std::filesystem::path& path, load_options options) {
  TROUPE_TRY(run_->sound());
  return run_->outlast([&] { return run_->resumer.load_once(path, options); });
}

const std::string& session::client_state() const { return run_->progress.client_state; }

const std::string& session::configuration_before() const { return run_->progress.configuration_before; }

core::result<bool> session::save_16bit_model(const std::filesystem::path& path, bool exclude_frozen_parameters) const {
  return actors::save_16bit_model(*run_, path, exclude_frozen_parameters);
}

core::result<void> session::export_hugging_face(const std::string& folder, uint64_t max_shard_bytes) const {
  return actors::export_hugging_face(*run_, folder, max_shard_bytes);
}

// ---- Functions that read and move parameters, gradients and optimizer states

core::result<void> session::read_parameter(uint32_t parameter, uint64_t first, std::span<float> out) const {
  return actors::read_parameter(*run_, parameter, first, out);
}
core::result<void> session::read_moment(uint32_t parameter, int which, std::span<float> out) const {
  return actors::read_moment(*run_, parameter, which, out);
}
core::result<void> session::read_gradient(uint32_t parameter, std::span<double> out) const {
  return actors::read_gradient(*run_, parameter, out);
}
state_access session::states() { return state_access(states_of(*run_)); }
core::result<offload_report> session::offload_states(offload_request request) { return offload(*run_, request); }
core::result<void> session::reload_states() { return reload(*run_); }

// ---- Functions that describe the run: progress, plans, memory and data

uint64_t session::steps_done() const { return run_->progress.steps; }
const std::vector<core::left_out_steps>& session::left_out() const { return run_->progress.left_out; }
uint64_t session::sequence() const { return run_->term->plan.sequence; }
std::string session::model_type() const {
  return run_->modules.model != nullptr ? std::string() : std::string(run_->term->plan.spec.family->model_type);
}
const core::model_table& session::table() const { return *run_->term->plan.tensor.whole; }
std::vector<rank_memory_report> session::memory() const { return run_->memory_reports(); }
std::string session::changed_units() const { return run_->modules.changes; }
std::string session::found_schedule_note() const { return run_->term->plan.pipeline.search; }

uint64_t session::validation_tokens() const {
  const auto& corpus = run_->data.corpus();
  return corpus == nullptr ? 0 : corpus->validation_tokens();
}

std::vector<std::string> session::validation_sets() const {
  std::vector<std::string> out;
  const auto& corpus = run_->data.corpus();
  for (size_t set = 0; corpus != nullptr && set < corpus->validation_sets(); ++set)
    out.push_back(corpus->validation_name(set));
  return out;
}

const plan::rank_plan& session::training_plan(uint32_t rank) const {
  return *run_->term->program_of(plan::plan_choice::train, rank)->plan;
}

std::string session::found_schedule() const {
  const auto& p = run_->term->plan.pipeline;
  return p.search.empty() ? std::string() : plan::write_table(p.training.table);
}

std::string session::chosen_tiers() const {
  const auto& b = run_->term->plan;
  const auto& options = b.train.layout().options;
  return options.tiers.swaps() ? job::chosen_tiers(*b.config, options, b.costs) : std::string();
}

}  // namespace troupe::actors
