// Saving a session. Owns what the run's own numbers mean in a checkpoint; tensors are checkpoint_state.hpp's.
#include "actors/checkpoint_state.hpp"
#include "actors/session_parts.hpp"

namespace troupe::actors {

core::result<std::filesystem::path> session::save(const std::filesystem::path& root, std::string configuration,
                                                  std::string client_state) const {
  const auto& p = *parts_;
  if (p.over) return core::fail(*p.over);
  const auto& c = *p.plan.config;
  checkpoint::run_state run;
  run.step = p.steps;
  run.applied_updates = p.applied;
  run.schedule_position = p.scheduled;
  run.loss_scale = checkpoint::loss_scale_record{p.scale.cur_scale, p.scale.cur_iter, p.scale.last_overflow_iter,
                                                 p.scale.cur_hysteresis};
  run.data_position = p.steps * p.data.shape.global_rows();
  run.seed = c.seed;
  run.config = std::move(configuration);
  run.model = c.model.path.empty() ? c.model.hugging_face_json : c.model.path.string();
  run.client_state = std::move(client_state);
  for (const auto& parameter : table().parameters) run.parameter_order.push_back(parameter.name);
  return write_checkpoint(root, p.memory, *p.plan.optimizer, std::move(run));
}

const std::string& session::client_state() const { return parts_->client_state; }

}  // namespace troupe::actors
