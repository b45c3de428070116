#include "formats/deepspeed/write/state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/json_text.hpp"

namespace troupe::formats {
namespace {

using core::dtype;
using nlohmann::json;

/// Factor by which a dynamic loss scale grows and shrinks.
constexpr double scale_factor = 2.0;
/// Keys of a model-state file, which keys of a client state would overwrite.
constexpr std::array own_keys{"module",
                              "buffer_names",
                              "optimizer",
                              "param_shapes",
                              "frozen_param_shapes",
                              "shared_params",
                              "lr_scheduler",
                              "data_sampler",
                              "random_ltd",
                              "frozen_param_fragments",
                              "skipped_steps",
                              "global_steps",
                              "global_samples",
                              "dp_world_size",
                              "mp_world_size",
                              "ds_config",
                              "ds_version",
                              "checkpoint_parallel_dimensions",
                              "sparse_tensor_module_names"};

torch_value value_of(const json& j) {
  switch (j.type()) {
    case json::value_t::boolean:
      return j.get<bool>();
    case json::value_t::number_integer:
      return j.get<int64_t>();
    case json::value_t::number_unsigned:
      if (j.get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return j.get<int64_t>();
      return j.get<double>();
    case json::value_t::number_float:
      return j.get<double>();
    case json::value_t::string:
      return j.get<std::string>();
    case json::value_t::array: {
      auto out = torch_value::list();
      for (const auto& item : j) out.push(value_of(item));
      return out;
    }
    case json::value_t::object: {
      auto out = torch_value::dict();
      for (const auto& [key, value] : j.items()) out.set(key, value_of(value));
      return out;
    }
    default:
      return {};
  }
}

core::result<json> parsed(const std::string& text, const char* what) {
  auto out = core::parse_json(text);
  if (!out) return fail(out.error().kind, fmt::format("{} is not valid JSON: {}", what, out.error().why));
  return std::move(*out);
}

core::result<json> parsed_object(const std::string& text, const char* what) {
  auto out = parsed(text, what);
  if (out && !out->is_object()) return fail(error_kind::bad_input, fmt::format("{} is not a JSON object", what));
  return out;
}

template <class T>
T number_or(const json& section, const char* key, T otherwise) {
  const auto at = section.find(key);
  return at != section.end() && at->is_number() ? at->get<T>() : otherwise;
}

bool truth_or(const json& section, const char* key, bool otherwise) {
  const auto at = section.find(key);
  return at != section.end() && at->is_boolean() ? at->get<bool>() : otherwise;
}

json least_config(const deepspeed_write_options& o) {
  json out{{"train_micro_batch_size_per_gpu", 1}, {"zero_optimization", {{"stage", o.stage}}}};
  if (o.weight_type == dtype::bf16) out["bf16"] = {{"enabled", true}};
  if (o.weight_type == dtype::f16) out["fp16"] = {{"enabled", true}};
  return out;
}

/// Sets the loss scaler in `parts`: as an object of DeepSpeed's classes LossScaler or DynamicLossScaler, and as the
/// values that stage 0 stores.
void take_loss_scaler(deepspeed_parts& parts, const json& config) {
  const json fp16 = config.value("fp16", json::object());
  const double fixed = fp16.is_object() ? number_or(fp16, "loss_scale", 0.0) : 0.0;
  const auto& record = parts.from.run.loss_scale;
  parts.dynamic_loss_scale = parts.options.weight_type == dtype::f16 && fixed == 0.0;
  const double first = std::ldexp(1.0, number_or(fp16, "initial_scale_power", 16));
  const int64_t hysteresis = number_or(fp16, "hysteresis", int64_t{2});
  const int64_t window = number_or(fp16, "loss_scale_window", int64_t{1000});
  const double without_record = parts.dynamic_loss_scale ? first : fixed == 0.0 ? 1.0 : fixed;
  const double scale = parts.dynamic_loss_scale && record ? record->cur_scale : without_record;
  const int64_t iteration = record ? record->cur_iter : 0, overflow = record ? record->last_overflow_iter : -1;
  const char* module = "deepspeed.runtime.fp16.loss_scaler";
  parts.scale_keys = {{"dynamic_loss_scale", parts.dynamic_loss_scale}, {"cur_scale", scale}, {"cur_iter", iteration}};
  if (!parts.dynamic_loss_scale) {
    parts.loss_scaler = torch_value::object(module, "LossScaler");
    parts.loss_scaler.set("cur_scale", scale).set("dynamic", false);
    return;
  }
  parts.scale_keys.emplace_back("last_overflow_iter", overflow);
  parts.scale_keys.emplace_back("scale_factor", scale_factor);
  parts.scale_keys.emplace_back("scale_window", window);
  parts.loss_scaler = torch_value::object(module, "DynamicLossScaler");
  parts.loss_scaler.set("cur_scale", scale)
      .set("dynamic", true)
      .set("cur_iter", iteration)
      .set("last_overflow_iter", overflow)
      .set("scale_factor", scale_factor)
      .set("scale_window", window)
      .set("min_scale", number_or(fp16, "min_loss_scale", 1.0))
      .set("delayed_shift", hysteresis)
      .set("cur_hysteresis", record ? int64_t{record->cur_hysteresis} : hysteresis)
      .set("consecutive_hysteresis", truth_or(fp16, "consecutive_hysteresis", false))
      .set("raise_error_at_min_scale", true)
      .set("dtype", torch_value::global("torch", "float16"));
}

/// Returns the keys of torch.optim.AdamW and of DeepSpeed's own Adams; each of them ignores the keys that it does not
/// know.
json group_keys(const deepspeed_parameter_group& g) {
  return {{"lr", g.lr},
          {"betas", {g.beta1, g.beta2}},
          {"eps", g.eps},
          {"weight_decay", g.weight_decay},
          {"bias_correction", true},
          {"amsgrad", false},
          {"maximize", false},
          {"foreach", nullptr},
          {"capturable", false},
          {"differentiable", false},
          {"fused", nullptr},
          {"decoupled_weight_decay", true}};
}

}  // namespace

core::result<deepspeed_parts> deepspeed_parts_of(const tensor_source& from, const deepspeed_write_options& options,
                                                 const deepspeed_model& model) {
  deepspeed_parts out{from, options, model, {}, {}, false, {}, {}, {}, {}};
  TROUPE_ASSIGN(auto config, options.ds_config.empty() ? core::result<json>(least_config(options))
                                                       : parsed_object(options.ds_config, "DeepSpeed's configuration"));
  out.config = value_of(config);
  take_loss_scaler(out, config);
  if (!options.lr_scheduler.empty()) {
    TROUPE_ASSIGN(const auto schedule,
                  parsed_object(options.lr_scheduler, "the state of the learning rate's schedule"));
    out.lr_scheduler = value_of(schedule);
  } else if (from.run.schedule_position) {
    out.lr_scheduler = torch_value::dict().set("last_batch_iteration", *from.run.schedule_position - 1);
  }
  const auto client = parsed(from.run.client_state, "the client state");
  if (!client) return fail(client.error().in(fmt::format("'{}'", shown_place(from))));
  if (client->is_object()) {
    for (const auto& [key, value] : client->items()) {
      if (std::ranges::find(own_keys, key) != own_keys.end())
        return fail(error_kind::bad_input,
                    fmt::format("'{}': the client state's key '{}' is reserved by DeepSpeed", shown_place(from), key));
      out.client.emplace_back(key, value_of(value));
    }
  } else if (!client->is_null()) {
    out.client.emplace_back("client_state", value_of(*client));
  }
  for (size_t g = 0; g < options.groups.size(); ++g) {
    TROUPE_ASSIGN(const auto more, parsed_object(options.groups[g].more, "a parameter group"));
    auto keys = group_keys(options.groups[g]);
    keys.update(more);
    auto group = torch_value::dict();
    for (const auto& [key, value] : keys.items())
      if (key == "betas" && value.is_array() && value.size() == 2)
        group.set(key, torch_value::tuple({value_of(value[0]), value_of(value[1])}));
      else
        group.set(key, value_of(value));
    out.groups.push_back(std::move(group));
  }
  return out;
}

torch_value parameter_groups(const deepspeed_parts& parts, const std::vector<std::vector<int64_t>>& params) {
  auto out = torch_value::list();
  for (size_t g = 0; g < parts.groups.size(); ++g) {
    auto group = parts.groups[g];
    out.push(std::move(group.set("params", torch_value::list({params[g].begin(), params[g].end()}))));
  }
  return out;
}

std::optional<torch_value> optimizer_step(const deepspeed_parts& parts, torch_file& file) {
  const auto& run = parts.from.run;
  const auto steps = run.applied_updates ? run.applied_updates : run.steps;
  if (!steps) return std::nullopt;
  if (parts.options.integer_step) return static_cast<int64_t>(*steps);
  return file.scalar(static_cast<float>(*steps));
}

void set_loss_scale(const deepspeed_parts& parts, torch_value& to) {
  to.set("loss_scaler", parts.loss_scaler).set("dynamic_loss_scale", parts.dynamic_loss_scale).set("overflow", false);
}

}  // namespace troupe::formats
