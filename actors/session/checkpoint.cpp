// Saves a session. Owns which of the run's numbers a checkpoint holds and when a save begins and ends; save_job.hpp
// writes the tensors.
#include "actors/hands/writer_executor.hpp"
#include "actors/session/parts.hpp"
#include "models/table/model_folder.hpp"

namespace troupe::actors {

core::result<void> session::parts::begin_save(const save_request& request) {
  TROUPE_TRY(sound());
  TROUPE_TRY(check_tags(request.tag.empty() ? checkpoint::step_folder_name(progress.steps) : request.tag));
  TROUPE_ASSIGN(auto job, make_save(checkpoint::real_files(), request));
  saving.waiting = std::move(job);
  return {};
}

core::result<std::shared_ptr<save_job>> session::parts::make_save(checkpoint::file_system& files,
                                                                  const save_request& request) {
  const auto& c = *plan.config;
  checkpoint::run_state run;
  run.step = progress.steps;
  run.applied_updates = progress.applied;
  run.schedule_position = progress.scheduled;
  run.loss_scale = progress.scale_record();
  run.data_position = data.loader.shape.samples_before(progress.steps);
  run.samples_per_step = data.loader.shape.global_rows();
  run.seed = c.seed;
  run.config = request.configuration;
  run.model = c.model.path.empty() ? c.model.hugging_face_json : models::folder_of(c.model.path).string();
  run.client_state = request.client_state;
  run.teacher = teacher;
  for (size_t i = 0; i < progress.input_ranges.size(); ++i)
    if (const auto& range = progress.input_ranges[i]; range.is_known())
      run.input_ranges.push_back({plan.compression->layers[i].module, range.least, range.largest});
  for (const auto& p : plan.table->parameters)
    if (!p.is_copy() && !p.of_teacher) run.parameter_order.push_back(p.name);
  run.masks = saved_masks();
  run.data = data_record();
  run.left_out = progress.left_out;
  run.recent_losses = progress.recent_losses;
  TROUPE_ASSIGN(const auto saves, saving_plans());
  return save_job::begin(files, request, std::move(run), saves, plan.optimizer, plan.tensor, ranks_of_process());
}

core::result<std::vector<std::shared_ptr<const plan::rank_plan>>> session::parts::saving_plans() {
  for (const auto& m : memory.here) TROUPE_TRY(m->take_staging());
  TROUPE_TRY(want(plan::plan_choice::save));
  std::vector<std::shared_ptr<const plan::rank_plan>> out;
  for (uint32_t r = 0; r < programs.size(); ++r) out.push_back(program_of(plan::plan_choice::save, r)->plan);
  return out;
}

ranks_here session::parts::ranks_of_process() const {
  return processes.members ? processes.members->here() : ranks_here(programs.size(), true);
}

core::result<std::shared_ptr<save_job>> session::parts::join_save(checkpoint::file_system& files, uint64_t run,
                                                                  const save_invitation& invitation,
                                                                  const save_request& request) {
  TROUPE_ASSIGN(const auto saves, saving_plans());
  return save_job::join(files, invitation, request, progress.steps, saves, plan.tensor, ranks_of_process(),
                        [link = processes.link, run, folder = invitation.working, &files](part_result part) {
                          // The leading process syncs its own folder; this process's folder may be on another machine's
                          // disk.
                          if (!part.failure)
                            if (const auto synced = files.sync_folder(folder); !synced) part.failure = synced.error();
                          link->reply(0, part_taker::note(run, part));
                        });
}

// Saves without the lanes, after the run is over and the lanes have stopped: this thread does their parts of the save,
// rank after rank.
core::result<void> session::parts::save_without_lanes(const save_request& request) {
  (void)collect_save(unfinished_save::wait);
  saving.waiting.reset();
  TROUPE_ASSIGN(auto job, make_save(checkpoint::real_files(), request));
  saving.writing = job;
  step_order order;
  order.run = ++counts.runs;
  order.step = progress.steps;
  order.save = std::move(job);
  for (uint32_t r = 0; r < memory.ranks.size(); ++r) {
    const auto program = program_of(plan::plan_choice::save, r);
    writer_executor writer(memory.ranks[r], std::make_unique<state_store>(*memory.ranks[r]));
    writer.attach([](std::chrono::nanoseconds, uint64_t) {});
    writer.begin(std::make_shared<step_context>(program, order, plan.rules));
    for (const uint32_t id : program->plan->lanes[static_cast<size_t>(plan::lane::writer)])
      TROUPE_TRY(writer.start(program->plan->instructions[id]));
  }
  order.save.reset();
  if (const auto failure = collect_save(unfinished_save::wait)) return core::fail(*failure);
  return {};
}

std::optional<core::error> session::parts::collect_save(unfinished_save what) {
  if (saving.writing == nullptr || (what == unfinished_save::leave && !saving.writing->is_over())) return std::nullopt;
  if (over.why) saving.writing->abandon(*over.why);  // lanes that have begun their part still finish it
  const auto report = saving.writing->wait();
  tell_machines(*saving.writing, report);
  saving.writing.reset();
  if (!report.folder.empty()) places.add({report.step, report.folder, {.load_module_strict = false}});
  if (host.hooks.on_saved) host.hooks.on_saved(report);
  return report.failure;
}

core::result<void> session::parts::end_saves() {
  auto failure = collect_save(unfinished_save::wait);
  if (saving.waiting != nullptr && !over.why)
    if (auto did = run_and_tell(plan::plan_choice::save, progress.steps); !did && !failure) failure = did.error();
  saving.waiting.reset();
  if (auto second = collect_save(unfinished_save::wait); second && !failure) failure = second;
  if (!failure) return {};
  note_loss();
  return core::fail(*failure);
}

core::result<std::filesystem::path> session::save(const save_request& request) {
  auto& p = *parts_;
  if (p.over.why && may_save()) {
    TROUPE_TRY(p.save_without_lanes(request));
    return request.root / (request.tag.empty() ? checkpoint::step_folder_name(p.progress.steps) : request.tag);
  }
  TROUPE_TRY(p.outlasting([&]() -> core::result<void> {
    if (auto ok = p.end_saves(); !ok && p.over.why) return ok;
    TROUPE_TRY(p.begin_save(request));
    return p.end_saves();
  }));
  return request.root / (request.tag.empty() ? checkpoint::step_folder_name(p.progress.steps) : request.tag);
}

core::result<void> session::save_async(const save_request& request) {
  auto& p = *parts_;
  (void)p.collect_save(unfinished_save::leave);
  if (save_under_way())
    return core::fail(core::error_kind::limit,
                      "the checkpoint of step " +
                          std::to_string((p.saving.waiting ? p.saving.waiting : p.saving.writing)->step()) +
                          " is still being written; one at a time");
  return p.begin_save(request);
}

bool session::may_save() const {
  if (parts_->processes.is_on()) return !parts_->over.why;  // other processes' parts of the states were lost with them
  return parts_->memory.offloaded == nullptr && (!parts_->over.why || parts_->over.states_whole);
}

bool session::save_under_way() const { return parts_->saving.waiting != nullptr || parts_->saving.writing != nullptr; }

core::result<void> session::wait_for_saves() {
  return parts_->outlasting([this] { return parts_->end_saves(); });
}

const std::string& session::client_state() const { return parts_->progress.client_state; }

}  // namespace troupe::actors
