// Writes DeepSpeed's model-state file, which holds the module. Its layout is the same at every ZeRO stage, but at stage
// 3 it has only names and shapes of parameters.
#include <algorithm>
#include <map>

#include "core/tensor_view.hpp"
#include "formats/deepspeed/write/layout.hpp"
#include "formats/deepspeed/write/state.hpp"
#include "formats/source/element_cast.hpp"

namespace troupe::formats {
namespace {

using core::dtype;

constexpr uint32_t first_stage_with_frozen = 2, stage_of_cut_weights = 3;

class model_states {
 public:
  model_states(const deepspeed_parts& parts, torch_file& file, uint32_t stage, uint32_t rank)
      : parts_(parts), model_(parts.model), file_(file), stage_(stage), rank_(rank) {}

  void fill() {
    const auto& o = parts_.options;
    const auto& run = parts_.from.run;
    auto& root = file_.root;
    root.set("module", o.place.module_apart ? torch_value() : module());
    auto buffers = torch_value::list();
    for (const auto& b : model_.buffers) buffers.push(b.name);
    root.set("buffer_names", std::move(buffers));
    root.set("optimizer", stage_ == 0 ? whole_optimizer(parts_, file_) : torch_value());
    root.set("param_shapes", stage_ == 0 ? torch_value() : shapes());
    set_frozen();
    root.set("shared_params", stage_ == 0 ? torch_value() : shared());
    root.set("lr_scheduler", parts_.lr_scheduler).set("data_sampler", {}).set("random_ltd", {});
    const uint64_t steps = run.steps.value_or(run.applied_updates.value_or(0));
    root.set("skipped_steps", static_cast<int64_t>(steps - std::min(steps, run.applied_updates.value_or(steps))));
    root.set("global_steps", static_cast<int64_t>(steps));
    // If global_samples is missing, DeepSpeed's engine uses global_steps times its train_batch_size.
    if (run.samples) root.set("global_samples", static_cast<int64_t>(*run.samples));
    root.set("dp_world_size", int64_t{o.ranks}).set("mp_world_size", int64_t{o.place.stages} * o.place.tensor);
    root.set("checkpoint_parallel_dimensions",
             torch_value::dict().set("pp_degree", int64_t{o.place.stages}).set("tp_degree", int64_t{o.place.tensor}));
    root.set("ds_config", parts_.config).set("ds_version", o.ds_version);
    for (const auto& [key, value] : parts_.client) root.set(key, value);
  }

 private:
  [[nodiscard]] bool cut() const { return stage_ == stage_of_cut_weights; }
  [[nodiscard]] dtype stored(const tensor_entry& t) const {
    return is_floating(t.type) ? parts_.options.weight_type : t.type;
  }
  [[nodiscard]] torch_value weight(const tensor_entry& t) const {
    return cut() ? file_.nothing(stored(t)) : file_.whole(stored(t), t);
  }

  torch_value module() {
    auto out = torch_value::ordered_dict();
    std::map<std::string, torch_value> values;
    const auto put = [&](const std::string& name, const tensor_entry& t) {
      auto value = weight(t);
      values.emplace(name, value);
      out.set(name, std::move(value));
    };
    for (const auto& p : model_.module)
      if (!parts_.options.exclude_frozen_parameters || p.tensor->kind != tensor_kind::frozen) put(p.name, *p.tensor);
    for (const auto& [alias, owner] : model_.shared)
      if (const auto at = values.find(owner); at != values.end()) out.set(alias, at->second);
    for (const auto& b : model_.buffers) out.set(b.name, file_.whole(b.tensor->type, *b.tensor));
    auto metadata = torch_value::ordered_dict();
    metadata.set("", torch_value::dict().set("version", 1));
    out.set_metadata(std::move(metadata));
    return out;
  }

  /// Returns the shapes of parameters in the order of the flat data; at stage 3 one dict for each sub-group.
  [[nodiscard]] torch_value shapes() const {
    auto out = torch_value::list();
    for (size_t g = 0; g < model_.groups.size(); ++g) {
      const auto numels = model_.numels(g);
      const uint64_t size = cut() ? parts_.options.sub_group_size : ~uint64_t{0};
      for (const auto& sub_group : sub_groups_of(numels, parts_.options.ranks, size)) {
        auto shapes = torch_value::ordered_dict();
        for (const uint32_t p : sub_group) {
          const auto& parameter = model_.groups[g][p];
          shapes.set(parameter.name, torch_value::size(parameter.master->shape));
        }
        out.push(std::move(shapes));
      }
    }
    return out;
  }

  void set_frozen() {
    torch_value shapes, fragments;
    if (stage_ >= first_stage_with_frozen && !parts_.options.exclude_frozen_parameters) {
      shapes = torch_value::ordered_dict();
      fragments = torch_value::ordered_dict();
      for (const auto& f : model_.frozen) {
        shapes.set(f.name, torch_value::size(f.tensor->shape));
        fragments.set(f.name, fragment(*f.tensor));
      }
    }
    file_.root.set("frozen_param_shapes", std::move(shapes));
    file_.root.set("frozen_param_fragments", std::move(fragments));
  }

  [[nodiscard]] torch_value fragment(const tensor_entry& t) const {
    if (!cut()) return file_.whole(stored(t), t);
    const std::vector<uint64_t> numels{core::numel_of(t.shape)};
    std::vector<torch_file::stretch> stretches;
    for (const auto& s : pieces_of_sub_group(numels, std::vector<uint32_t>{0}, parts_.options.ranks, rank_))
      stretches.push_back({s.parameter == flat_stretch::no_parameter ? nullptr : &t, s.first, s.count});
    return file_.tensor(stored(t), {static_cast<int64_t>(rank_elements(numels[0], parts_.options.ranks))},
                        std::move(stretches));
  }

  /// Returns the tied names of parameters, as a dictionary; only rank 0 writes them.
  [[nodiscard]] torch_value shared() const {
    auto out = torch_value::dict();
    if (rank_ == 0)
      for (const auto& [alias, owner] : model_.shared) out.set(alias, owner);
    return out;
  }

  const deepspeed_parts& parts_;
  const deepspeed_model& model_;
  torch_file& file_;
  uint32_t stage_, rank_;
};

}  // namespace

void fill_model_states(const deepspeed_parts& parts, torch_file& file, uint32_t stage, uint32_t rank) {
  model_states(parts, file, stage, rank).fill();
}

torch_value whole_optimizer(const deepspeed_parts& parts, torch_file& file) {
  auto state = torch_value::dict();
  std::vector<std::vector<int64_t>> params;
  int64_t number = 0;
  for (const auto& group : parts.model.groups) {
    params.emplace_back();
    for (const auto& p : group) {
      if (!p.moments.empty()) {
        auto one = torch_value::dict();
        if (auto step = optimizer_step(parts, file)) one.set("step", std::move(*step));
        for (const auto* m : p.moments) one.set(m->moment, file.whole(dtype::f32, *m));
        state.set(number, std::move(one));
      }
      params.back().push_back(number++);
    }
  }
  auto base = torch_value::dict();
  base.set("state", std::move(state)).set("param_groups", parameter_groups(parts, params));
  if (parts.options.weight_type == dtype::f32) return base;
  auto wrapped = torch_value::dict(), masters = torch_value::list();
  for (const auto& [key, value] : parts.scale_keys) wrapped.set(key, value);
  for (const auto& group : parts.model.groups) {
    auto one = torch_value::list();
    for (const auto& p : group) one.push(file.whole(dtype::f32, *p.master));
    masters.push(std::move(one));
  }
  return wrapped.set("optimizer_state_dict", std::move(base)).set("fp32_groups", std::move(masters));
}

}  // namespace troupe::formats
