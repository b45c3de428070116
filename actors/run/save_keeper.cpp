#include "actors/run/save_keeper.hpp"

#include <fmt/format.h>

#include <functional>
#include <utility>

#include "actors/hands/writer_executor.hpp"
#include "actors/memory/state_store.hpp"
#include "actors/run/training_run.hpp"
#include "models/table/model_folder.hpp"

namespace troupe::actors {

core::result<void> save_keeper::request(const save_request& request) {
  TROUPE_TRY(run_.sound());
  TROUPE_TRY(
      run_.others->check_tags(request.tag.empty() ? checkpoint::step_folder_name(run_.progress.steps) : request.tag));
  TROUPE_ASSIGN(auto job, make(storage::real_files(), request));
  waiting_ = std::move(job);
  return {};
}

core::result<std::shared_ptr<save_job>> save_keeper::make(storage::file_system& files, const save_request& request) {
  const auto& c = *run_.term->plan.config;
  checkpoint::run_state run;
  run.step = run_.progress.steps;
  run.applied_updates = run_.progress.applied;
  run.schedule_position = run_.progress.scheduled;
  run.loss_scale = run_.progress.scale_record();
  run.data_position = run_.term->loader.shape.samples_before(run_.progress.steps);
  run.samples_per_step = run_.term->loader.shape.global_rows();
  run.seed = c.seed;
  run.config = request.configuration;
  run.model = c.model.path.empty() ? c.model.hugging_face_json : models::folder_of(c.model.path).string();
  run.client_state = request.client_state;
  run.teacher = run_.resumer.teacher();
  for (size_t i = 0; i < run_.progress.input_ranges.size(); ++i)
    if (const auto& range = run_.progress.input_ranges[i]; range.is_known())
      run.input_ranges.push_back({run_.term->plan.compression->layers[i].module, range.least, range.largest});
  for (const auto& p : run_.term->plan.table->parameters)
    if (!p.is_copy() && !p.of_teacher) run.parameter_order.push_back(p.name);
  run.masks = run_.term->pruner.saved_masks();
  run.data = run_.data.record();
  run.left_out = run_.progress.left_out;
  run.recent_losses = run_.progress.recent_losses;
  run.group_changes = run_.progress.group_changes;
  TROUPE_ASSIGN(const auto saves, run_.term->saving_plans());
  return save_job::begin(files, request, std::move(run), saves, run_.term->plan.optimizer, run_.term->plan.tensor,
                         run_.others->here());
}

// Saves after the run has ended and its lanes have stopped: executes the writer lanes' instructions on this thread,
// rank after rank.
core::result<void> save_keeper::save_without_lanes(const save_request& request) {
  (void)collect(unfinished_save::wait);
  waiting_.reset();
  TROUPE_ASSIGN(auto job, make(storage::real_files(), request));
  writing_ = job;
  step_order order;
  order.run = ++run_.counts.runs;
  order.step = run_.progress.steps;
  order.save = std::move(job);
  for (uint32_t r = 0; r < run_.term->memory.ranks.size(); ++r) {
    const auto program = run_.term->program_of(plan::plan_choice::save, r);
    writer_executor writer(run_.term->memory.ranks[r], std::make_unique<state_store>(*run_.term->memory.ranks[r]));
    writer.attach([](std::chrono::nanoseconds, uint64_t) {});
    writer.begin(std::make_shared<step_context>(program, order, run_.term->plan.rules));
    for (const uint32_t id : program->plan->lanes[static_cast<size_t>(plan::lane::writer)])
      TROUPE_TRY(writer.start(program->plan->instructions[id]));
  }
  order.save.reset();
  if (const auto failure = collect(unfinished_save::wait)) return core::fail(*failure);
  return {};
}

std::optional<core::error> save_keeper::collect(unfinished_save what) {
  if (writing_ == nullptr || (what == unfinished_save::leave && !writing_->is_over())) return std::nullopt;
  if (run_.over.why) writing_->abandon(*run_.over.why);  // a writer lane that has begun its part still completes it
  const auto report = writing_->wait();
  run_.others->tell_saved(*writing_, report);
  auto ended = std::exchange(writing_, nullptr);
  if (!report.folder.empty()) {
    const auto& request = ended->request();
    std::erase_if(unproved_, [&](const auto& x) { return x->request().root == request.root; });
    const bool is_whole =
        !request.exclude_frozen_parameters && !run_.term->plan.config->checkpoint.exclude_frozen_parameters;
    run_.spikes.add_place({report.step, report.folder, {.load_module_strict = is_whole}});
    unproved_.push_back(std::move(ended));
  }
  if (run_.host.hooks.on_saved) run_.host.hooks.on_saved(report);
  return report.failure;
}

void save_keeper::prove(uint64_t step) {
  const auto is_of = [step](const std::shared_ptr<save_job>& save) { return save != nullptr && save->step() <= step; };
  auto proved = unproved_;
  proved.insert(proved.end(), {waiting_, writing_});
  std::erase_if(proved, std::not_fn(is_of));
  std::erase_if(unproved_, is_of);
  for (const auto& save : proved) {
    const auto removed = save->prove();
    if (!removed)
      run_.host.warnings->put("cannot remove old checkpoints: " + removed.error().text);
    else if (*removed)
      run_.others->tell_saved(*save, save->wait());  // the other machines remove their files of the removed checkpoints
  }
}

core::result<void> save_keeper::end_saves() {
  auto failure = collect(unfinished_save::wait);
  if (waiting_ != nullptr && !run_.over.why)
    if (auto did = run_.steps.run_and_tell(plan::plan_choice::save, run_.progress.steps); !did && !failure)
      failure = did.error();
  waiting_.reset();
  if (auto second = collect(unfinished_save::wait); second && !failure) failure = second;
  if (!failure) return {};
  run_.others->note_loss();
  return core::fail(*failure);
}

core::result<void> save_keeper::take_copies() {
  TROUPE_TRY(run_.sound());
  if (waiting_ == nullptr) return {};
  // The requested save must contain the current states, so their copies are made now, in a run that only saves.
  TROUPE_TRY(run_.steps.run_and_tell(plan::plan_choice::save, run_.progress.steps));
  return {};
}

std::shared_ptr<save_job> save_keeper::begin_writing() {
  if (waiting_ != nullptr) return writing_ = std::exchange(waiting_, nullptr);
  return nullptr;
}

void save_keeper::abandon(const core::error& why, bool tells) {
  for (auto* save : {&waiting_, &writing_}) {
    if (*save == nullptr) continue;
    (*save)->abandon(why);
    const auto report = (*save)->wait();
    if (tells && run_.host.hooks.on_saved) run_.host.hooks.on_saved(report);
    save->reset();
  }
  forget_unproved();  // tell_saved() needs the ranks that wrote the checkpoint
}

core::result<std::filesystem::path> save_keeper::save(const save_request& request) {
  const auto folder = [&] {
    return request.root / (request.tag.empty() ? checkpoint::step_folder_name(run_.progress.steps) : request.tag);
  };
  if (run_.over.why && may_save()) {
    TROUPE_TRY(save_without_lanes(request));
    return folder();
  }
  TROUPE_TRY(run_.outlast([&]() -> core::result<void> {
    if (auto ok = end_saves(); !ok && run_.over.why) return ok;
    TROUPE_TRY(this->request(request));
    return end_saves();
  }));
  return folder();
}

core::result<void> save_keeper::begin(const save_request& request) {
  (void)collect(unfinished_save::leave);
  if (is_under_way())
    return core::fail(core::error_kind::limit,
                      fmt::format("the checkpoint of step {} is still being written; only one can be written at a time",
                                  (waiting_ ? waiting_ : writing_)->step()));
  return this->request(request);
}

bool save_keeper::may_save() const {
  // after an error other processes may be lost, and the states of their ranks with them
  if (run_.others->are_there()) return !run_.over.why;
  return run_.term->memory.offloaded == nullptr && (!run_.over.why || run_.over.states_whole);
}

}  // namespace troupe::actors
