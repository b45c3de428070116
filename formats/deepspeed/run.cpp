#include "formats/deepspeed/run.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "formats/torch/pickle_json.hpp"

namespace troupe::formats {
namespace {

/// Keys that DeepSpeed itself writes to a model-state file.
constexpr std::array<std::string_view, 26> model_file_keys = {"module",
                                                              "buffer_names",
                                                              "optimizer",
                                                              "param_shapes",
                                                              "frozen_param_shapes",
                                                              "frozen_param_fragments",
                                                              "shared_params",
                                                              "lr_scheduler",
                                                              "data_sampler",
                                                              "random_ltd",
                                                              "sparse_tensor_module_names",
                                                              "skipped_steps",
                                                              "global_steps",
                                                              "global_samples",
                                                              "dp_world_size",
                                                              "mp_world_size",
                                                              "checkpoint_parallel_dimensions",
                                                              "ds_config",
                                                              "ds_version",
                                                              "universal_checkpoint_info",
                                                              "num_experts",
                                                              "ds_autoep_layers",
                                                              "autoep_layers",
                                                              "folding",
                                                              "loss_scaler",
                                                              "zero_stage"};

std::optional<int64_t> integer_at(const torch_archive& file, pickle_ref dict, std::string_view key) {
  const auto v = file.tree().find(dict, key);
  if (!v) return std::nullopt;
  const auto n = file.integer(*v);
  return n ? std::optional(*n) : std::nullopt;
}

std::optional<uint64_t> count_at(const torch_archive& file, std::string_view key) {
  const auto n = integer_at(file, file.root(), key);
  return n && *n >= 0 ? std::optional(static_cast<uint64_t>(*n)) : std::nullopt;
}

std::optional<double> number_at(const torch_archive& file, pickle_ref dict, std::string_view key) {
  const auto v = file.tree().find(dict, key);
  if (v && file.tree().kind(*v) == pickle_kind::real) return file.tree().real(*v);
  const auto n = integer_at(file, dict, key);
  return n ? std::optional(static_cast<double>(*n)) : std::nullopt;
}

std::string client_state_of(const torch_archive& file) {
  const auto& tree = file.tree();
  const auto items = tree.items(file.root());
  std::string out;
  for (size_t i = 0; tree.kind(file.root()) == pickle_kind::dict && i + 1 < items.size(); i += 2) {
    if (tree.kind(items[i]) != pickle_kind::text) continue;
    if (std::ranges::find(model_file_keys, tree.text(items[i])) != model_file_keys.end()) continue;
    if (tree.find(file.root(), tree.text(items[i])) != items[i + 1]) continue;  // a later item sets this key again
    const auto name = plain_json(tree, items[i]), value = plain_json(tree, items[i + 1]);
    if (!name || !value || out.size() + value->size() > max_plain_json_bytes) continue;
    out += (out.empty() ? "" : ",") + *name + ":" + *value;
  }
  return out.empty() ? "null" : "{" + out + "}";
}

}  // namespace

std::optional<uint64_t> global_steps_of(const torch_archive& file) { return count_at(file, "global_steps"); }

source_run run_of_model_file(const torch_archive& file) {
  const auto& tree = file.tree();
  source_run out;
  out.steps = global_steps_of(file);
  if (out.steps) out.applied_updates = *out.steps - std::min(*out.steps, count_at(file, "skipped_steps").value_or(0));
  out.samples = known_samples(count_at(file, "global_samples"), out.steps);
  if (const auto schedule = tree.find(file.root(), "lr_scheduler")) {
    if (const auto last = integer_at(file, *schedule, "last_batch_iteration"); last && *last >= -1) {
      out.schedule_position = *last + 1;
    } else {
      out.schedule_position = integer_at(file, *schedule, "last_epoch");
    }
  }
  if (const auto config = tree.find(file.root(), "ds_config"); config && tree.kind(*config) == pickle_kind::dict)
    out.config = plain_json(tree, *config).value_or("");
  out.client_state = client_state_of(file);
  return out;
}

std::optional<loss_scale_record> loss_scale_of(const torch_archive& file, pickle_ref state) {
  const auto& tree = file.tree();
  pickle_ref at = state;
  if (const auto scaler = tree.find(state, "loss_scaler")) {
    if (!tree.state(*scaler)) return std::nullopt;
    at = *tree.state(*scaler);
  }
  const auto scale = number_at(file, at, "cur_scale");
  if (!scale) return std::nullopt;
  loss_scale_record out;
  out.cur_scale = *scale;
  out.cur_iter = integer_at(file, at, "cur_iter").value_or(0);
  out.last_overflow_iter = integer_at(file, at, "last_overflow_iter").value_or(-1);
  const int64_t hysteresis = integer_at(file, at, "cur_hysteresis").value_or(1);
  out.cur_hysteresis = static_cast<uint32_t>(std::clamp<int64_t>(hysteresis, 0, 1 << 30));
  const bool is_dynamic = integer_at(file, at, "cur_iter").has_value();
  return is_dynamic || out.cur_scale != 1 ? std::optional(out) : std::nullopt;
}

}  // namespace troupe::formats
