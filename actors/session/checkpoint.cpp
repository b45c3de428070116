// Saving a session. Owns what the run's own numbers mean in a checkpoint and when a save begins and ends; tensors are
// save_job.hpp's.
#include "actors/hands/writer_executor.hpp"
#include "actors/session/parts.hpp"

namespace troupe::actors {

core::result<void> session::parts::begin_save(const save_request& request) {
  if (auto ok = sound(); !ok) return ok;
  auto job = make_save(request);
  if (!job) return core::fail(job.error());
  save_waiting = std::move(*job);
  return {};
}

core::result<std::shared_ptr<save_job>> session::parts::make_save(const save_request& request) {
  const auto& c = *plan.config;
  checkpoint::run_state run;
  run.step = steps;
  run.applied_updates = applied;
  run.schedule_position = scheduled;
  run.loss_scale =
      checkpoint::loss_scale_record{scale.cur_scale, scale.cur_iter, scale.last_overflow_iter, scale.cur_hysteresis};
  run.data_position = data.shape.samples_before(steps);
  run.samples_per_step = data.shape.global_rows();
  run.seed = c.seed;
  run.config = request.configuration;
  run.model = c.model.path.empty() ? c.model.hugging_face_json : c.model.path.string();
  run.client_state = request.client_state;
  for (const auto& p : plan.table->parameters) run.parameter_order.push_back(p.name);
  for (const auto& m : memory)
    if (auto ok = m->take_staging(); !ok) return core::fail(ok.error());
  if (auto ok = want(plan::plan_choice::save); !ok) return core::fail(ok.error());
  std::vector<std::shared_ptr<const plan::rank_plan>> saves;
  for (uint32_t r = 0; r < programs.size(); ++r) saves.push_back(program_of(plan::plan_choice::save, r)->plan);
  return save_job::begin(checkpoint::real_files(), request, std::move(run), saves, plan.optimizer);
}

// The lanes have given up; what they would do is done here, rank after rank.
core::result<void> session::parts::save_without_lanes(const save_request& request) {
  (void)collect_save(true);
  save_waiting.reset();
  auto job = make_save(request);
  if (!job) return core::fail(job.error());
  save_writing = *job;
  step_order order;
  order.run = ++runs;
  order.step = steps;
  order.save = std::move(*job);
  for (uint32_t r = 0; r < memory.size(); ++r) {
    const auto program = program_of(plan::plan_choice::save, r);
    writer_executor writer(memory[r], std::make_unique<state_store>(*memory[r]));
    writer.attach([](std::chrono::nanoseconds, uint64_t) {});
    writer.begin(std::make_shared<step_context>(program, order, plan.rules));
    for (const uint32_t id : program->plan->lanes[static_cast<size_t>(plan::lane::writer)])
      if (auto ok = writer.start(program->plan->instructions[id]); !ok) return core::fail(ok.error());
  }
  order.save.reset();
  if (const auto failure = collect_save(true)) return core::fail(*failure);
  return {};
}

// Tells the host how the save ended, once. The error is the save's.
std::optional<core::error> session::parts::collect_save(bool wait) {
  if (save_writing == nullptr || (!wait && !save_writing->is_over())) return std::nullopt;
  if (over) save_writing->abandon(*over);  // parts that have begun end as they would
  const auto report = save_writing->wait();
  save_writing.reset();
  if (hooks.on_saved) hooks.on_saved(report);
  return report.failure;
}

core::result<void> session::parts::end_saves() {
  auto failure = collect_save(true);
  if (save_waiting != nullptr && !over)
    if (auto did = run_and_tell(plan::plan_choice::save, steps, nullptr); !did && !failure) failure = did.error();
  save_waiting.reset();
  if (auto second = collect_save(true); second && !failure) failure = second;
  if (failure) return core::fail(*failure);
  return {};
}

core::result<std::filesystem::path> session::save(const save_request& request) {
  auto& p = *parts_;
  if (p.over && may_save()) {
    if (auto ok = p.save_without_lanes(request); !ok) return core::fail(ok.error());
    return request.root / (request.tag.empty() ? checkpoint::step_folder_name(p.steps) : request.tag);
  }
  if (auto ok = p.end_saves(); !ok && p.over) return core::fail(ok.error());
  if (auto ok = p.begin_save(request); !ok) return core::fail(ok.error());
  if (auto ok = p.end_saves(); !ok) return core::fail(ok.error());
  return request.root / (request.tag.empty() ? checkpoint::step_folder_name(p.steps) : request.tag);
}

core::result<void> session::save_async(const save_request& request) {
  auto& p = *parts_;
  (void)p.collect_save(false);
  if (save_under_way())
    return core::fail(core::error_kind::limit,
                      "the checkpoint of step " +
                          std::to_string((p.save_waiting ? p.save_waiting : p.save_writing)->step()) +
                          " is still being written; one at a time");
  return p.begin_save(request);
}

bool session::may_save() const { return parts_->offloaded == nullptr && (!parts_->over || parts_->over_with_states); }

bool session::save_under_way() const { return parts_->save_waiting != nullptr || parts_->save_writing != nullptr; }

core::result<void> session::wait_for_saves() { return parts_->end_saves(); }

const std::string& session::client_state() const { return parts_->client_state; }

}  // namespace troupe::actors
