#include "checkpoint/native/native_source.hpp"

#include <optional>

namespace troupe::checkpoint {

formats::tensor_source source_of(const checkpoint_folder& c) {
  const auto& m = c.content;
  const std::optional<uint64_t> position = m.run.data_position;
  formats::tensor_source out;
  static_cast<formats::tensor_list&>(out) = m;
  out.format = "troupe";
  out.folder = c.folder;
  for (const auto& f : m.files) out.files.push_back({c.folder / f.name, f.bytes});
  out.has_digests = true;
  out.save_id = m.save_id;
  out.run = {.steps = m.run.step,
             .applied_updates = m.run.applied_updates,
             .samples = m.run.samples_per_step ? position : formats::known_samples(position, m.run.step),
             .samples_per_step = m.run.samples_per_step,
             .seed = m.run.seed,
             .loss_scale = m.run.loss_scale,
             .schedule_position = static_cast<int64_t>(m.run.schedule_position.value_or(m.run.applied_updates)),
             .config = m.run.config,
             .model = m.run.model,
             .client_state = m.run.client_state,
             .masks = m.run.masks,
             .teacher = m.run.teacher,
             .input_ranges = m.run.input_ranges,
             .data = m.run.data,
             .left_out = m.run.left_out,
             .recent_losses = m.run.recent_losses,
             .group_changes = m.run.group_changes};
  out.parameter_order = m.run.parameter_order;
  return out;
}

core::result<formats::verify_report> verify_checkpoint(storage::file_system& files,
                                                       const std::filesystem::path& folder) {
  TROUPE_ASSIGN(const auto known, read_manifest(files, folder));
  return formats::verify_source(files, source_of(known));
}

}  // namespace troupe::checkpoint
