#include "formats/deepspeed/write/model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "core/tensor_view.hpp"
#include "formats/safetensors/header.hpp"
#include "formats/source/element_cast.hpp"

namespace troupe::formats {
namespace {

class builder {
 public:
  builder(const tensor_source& from, const deepspeed_write_options& options) : from_(from), options_(options) {}

  core::result<deepspeed_model> build(unknown_order without) {
    TROUPE_TRY(sort_tensors());
    if (parameters_.empty()) return bad("it has no fp32 master weights that DeepSpeed could resume with");
    TROUPE_TRY(take_order(without));
    TROUPE_TRY(take_groups());
    TROUPE_TRY(take_shared());
    TROUPE_TRY(check_nothing_lost());
    return std::move(out_);
  }

 private:
  template <class... A>
  tl::unexpected<core::error> bad(fmt::format_string<A...> text, A&&... a) const {
    return fail(error_kind::bad_input, fmt::format("'{}' cannot be written for DeepSpeed: {}", shown_place(from_),
                                                   fmt::format(text, std::forward<A>(a)...)));
  }
  [[nodiscard]] std::string written(const std::string& name) const {
    return options_.name ? options_.name(name) : name;
  }

  /// Groups the tensors by parameter. Tensors are in ascending order of names, so all tensors of one parameter are
  /// neighbours. A weight of integers belongs to no optimizer, so it counts as a buffer.
  core::result<void> sort_tensors() {
    for (const auto& t : from_.tensors) {
      if (t.kind == tensor_kind::moment) {
        parameters_[t.name].moments.push_back(&t);
      } else if (t.kind == tensor_kind::master) {
        if (t.type != core::dtype::f32)
          return bad("master weight '{}' is {}, wanted fp32", shown(t.name), core::name_of(t.type));
        parameters_[t.name].master = &t;
      } else if (t.kind == tensor_kind::frozen) {
        frozen_[t.name] = &t;
      } else if (t.kind == tensor_kind::buffer) {
        out_.buffers.push_back({written(t.name), &t});
      }
    }
    std::vector<const tensor_entry*> without_states;
    for (const auto& t : from_.tensors) {
      if (t.kind != tensor_kind::weight) continue;
      const auto p = parameters_.find(t.name);
      if (p == parameters_.end() && !is_floating(t.type))
        out_.buffers.push_back({written(t.name), &t});
      else if (p == parameters_.end())
        without_states.push_back(&t);
      else if (p->second.master != nullptr && t.type == options_.weight_type && t.shape == p->second.master->shape)
        p->second.weight = &t;
    }
    if (!parameters_.empty() && !without_states.empty())
      return bad(
          "{} of its weights, such as '{}', have neither an fp32 master weight nor moments, which {} others have",
          without_states.size(), shown(without_states.front()->name), parameters_.size());
    for (auto& [name, p] : parameters_) {
      if (p.master == nullptr) return bad("'{}' has moments but no fp32 master weight", shown(name));
      p.name = written(name);
      if (core::numel_of(p.master->shape) == 0) return bad("parameter '{}' has no elements", shown(name));
      for (const auto* m : p.moments)
        if (!is_floating(m->type) || m->shape != p.master->shape)
          return bad("moment {} of '{}' has a different shape or is not of a floating-point type", shown(m->moment),
                     shown(name));
    }
    return {};
  }

  core::result<void> take_order(unknown_order without) {
    const auto& order = options_.order.empty() ? from_.parameter_order : options_.order;
    if (order.empty() && without == unknown_order::refuse)
      return bad(
          "DeepSpeed identifies parameters by their order, which neither the checkpoint nor a config.json of a known "
          "family states");
    std::set<std::string> placed;
    const auto place = [&](const std::string& name) {
      if (!placed.insert(name).second) return;
      if (const auto p = parameters_.find(name); p != parameters_.end()) {
        ordered_.emplace_back(name, &p->second);
        out_.module.push_back({p->second.name, &p->second.value()});
      } else if (const auto f = frozen_.find(name); f != frozen_.end()) {
        out_.frozen.push_back({written(name), f->second});
        out_.module.push_back(out_.frozen.back());
      }
    };
    for (const auto& name : order) place(name);
    for (const auto& [name, p] : parameters_) {
      if (!order.empty() && !placed.contains(name)) return bad("'{}' is not in the order of parameters", shown(name));
      place(name);
    }
    for (const auto& [name, t] : frozen_) place(name);
    return {};
  }

  core::result<void> take_groups() {
    std::map<std::string, size_t> group_of;
    std::optional<size_t> rest;
    for (size_t g = 0; g < options_.groups.size(); ++g) {
      if (options_.groups[g].parameters.empty()) {
        if (rest) return bad("parameter groups {} and {} both take all remaining parameters", *rest, g);
        rest = g;
      }
      for (const auto& name : options_.groups[g].parameters)
        if (!group_of.emplace(name, g).second) return bad("'{}' appears twice in the parameter groups", shown(name));
    }
    out_.groups.resize(options_.groups.size());
    std::set<std::string> names;
    for (const auto& [name, p] : ordered_) {
      if (!names.insert(p->name).second) return bad("two parameters are named '{}'", shown(p->name));
      const auto g = group_of.find(name);
      if (g == group_of.end() && !rest) return bad("'{}' is in no parameter group", shown(name));
      out_.groups[g == group_of.end() ? *rest : g->second].push_back(*p);
      if (g != group_of.end()) group_of.erase(g);
    }
    if (!group_of.empty())
      return bad("'{}' of the parameter groups is not a trained parameter", shown(group_of.begin()->first));
    for (size_t g = 0; g < out_.groups.size(); ++g) {
      const auto& group = out_.groups[g];
      if (group.empty()) return bad("parameter group {} is empty", g);
      for (const auto& p : group)
        if (!std::ranges::equal(p.moments, group.front().moments, {}, &tensor_entry::moment, &tensor_entry::moment))
          return bad("'{}' and '{}' are in one parameter group but have different moments", shown(group.front().name),
                     shown(p.name));
    }
    for (const auto* others : {&out_.frozen, &out_.buffers})
      for (const auto& o : *others)
        if (!names.insert(o.name).second) return bad("two tensors are named '{}'", shown(o.name));
    return {};
  }

  core::result<void> take_shared() {
    std::set<std::string> owners, taken;
    for (const auto& group : out_.groups)
      for (const auto& p : group) owners.insert(p.name);
    for (const auto& f : out_.frozen) owners.insert(f.name);
    taken = owners;
    for (const auto& b : out_.buffers) taken.insert(b.name);
    auto shared = options_.shared;
    for (const auto& t : from_.tied) shared.try_emplace(written(t.name), written(t.of));
    for (const auto& [alias, owner] : shared) {
      if (!owners.contains(owner))
        return bad("'{}' is tied to '{}', which is not a parameter", shown(alias), shown(owner));
      if (taken.contains(alias)) return bad("tied name '{}' is also the name of a tensor", shown(alias));
    }
    out_.shared = std::move(shared);
    return {};
  }

  /// Checks that the module and the buffers have every name of the source, so that no tensor is lost without an error.
  [[nodiscard]] core::result<void> check_nothing_lost() const {
    std::set<std::string_view> placed;
    for (const auto* all : {&out_.module, &out_.buffers})
      for (const auto& x : *all) placed.insert(x.tensor->name);
    for (const auto& t : from_.tensors)
      if (!placed.contains(t.name))
        return fail(error_kind::bug, fmt::format("'{}': tensor {} would be missing in the folder for DeepSpeed",
                                                 shown_place(from_), shown(t)));
    return {};
  }

  const tensor_source& from_;
  const deepspeed_write_options& options_;
  std::map<std::string, deepspeed_parameter> parameters_;  ///< the parameters, by name in the source
  std::map<std::string, const tensor_entry*> frozen_;
  /// Parameters with their names in the source, in the order in which the model registers them.
  std::vector<std::pair<std::string, const deepspeed_parameter*>> ordered_;
  deepspeed_model out_;
};

}  // namespace

std::vector<uint64_t> deepspeed_model::numels(size_t group) const {
  std::vector<uint64_t> out;
  for (const auto& p : groups[group]) out.push_back(core::numel_of(p.master->shape));
  return out;
}

core::result<deepspeed_model> deepspeed_model_of(const tensor_source& from, const deepspeed_write_options& options,
                                                 unknown_order without) {
  return builder(from, options).build(without);
}

}  // namespace troupe::formats
