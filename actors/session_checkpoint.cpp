// Saving a session and going on from what was saved. Owns what the run's own numbers mean in a checkpoint; tensors are
// checkpoint_state.hpp's.
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

core::result<void> session::parts::resume(const std::filesystem::path& path) {
  const auto from = checkpoint::open_checkpoint(checkpoint::real_files(), path);
  if (!from) return core::fail(from.error());
  const auto& run = from->content.run;
  const auto mismatch = [&](const std::string& what, uint64_t wanted, uint64_t got) {
    return core::fail(core::error_kind::mismatch, from->folder.string() + ": " + what + ": wanted " +
                                                      std::to_string(wanted) + ", as in this run, the checkpoint has " +
                                                      std::to_string(got));
  };
  // The order of samples and the dropout masks hang on both: with others this would be another run.
  if (run.seed != plan.config->seed) return mismatch("seed", plan.config->seed, run.seed);
  const uint64_t position = run.step * data.shape.global_rows();
  if (run.data_position != position) return mismatch("the position in the data", position, run.data_position);
  for (const auto& m : memory)
    if (auto ok = read_checkpoint(*from, *m, *plan.optimizer); !ok) return ok;
  steps = run.step;
  applied = run.applied_updates;
  if (const auto& s = run.loss_scale; s && plan.config->fp16.enabled)
    scale = {s->cur_scale, s->cur_iter, s->last_overflow_iter, s->cur_hysteresis};
  client_state = run.client_state;
  return {};
}

}  // namespace troupe::actors
