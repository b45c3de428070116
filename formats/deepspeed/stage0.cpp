#include "formats/deepspeed/stage0.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <string>

#include "formats/deepspeed/optimizer_steps.hpp"
#include "formats/safetensors/header.hpp"
#include "formats/source/element_cast.hpp"
#include "formats/torch/pieces.hpp"

namespace troupe::formats {
namespace {

/// The optimizer's state of one parameter, or of a whole flat group.
struct kept {
  std::optional<torch_tensor> master;
  named_tensors moments;  ///< pairs of a moment's name and its tensor

  [[nodiscard]] const torch_tensor* sample() const {
    if (master) return &*master;
    return moments.empty() ? nullptr : &moments.front().second;
  }
};

struct kept_group {
  bool is_flat = false;
  std::vector<kept> items;  ///< states of the group's parameters; a single item for the whole group if it is flat
  /// Returns the end of a cursor into the group: the number of its elements if it is flat, else of its items.
  [[nodiscard]] uint64_t length() const { return is_flat ? items.front().master->numel : items.size(); }
};

/// Returns elements of a flat tensor from element `first` on, with the shape of `like`.
torch_tensor cut(const torch_tensor& flat, uint64_t first, const torch_tensor& like) {
  torch_tensor out = like;
  out.type = flat.type;
  out.begin = flat.begin + first * core::size_of(flat.type);
  for (int64_t stride = 1, i = static_cast<int64_t>(out.shape.size()); i > 0; --i) {
    out.strides[static_cast<size_t>(i - 1)] = stride;
    stride *= std::max<int64_t>(out.shape[static_cast<size_t>(i - 1)], 1);
  }
  return out;
}

core::result<kept> kept_of(const torch_archive& file, std::optional<pickle_ref> state) {
  kept out;
  const auto items = state ? file.tree().items(*state) : std::span<const pickle_ref>();
  for (size_t i = 0; i + 1 < items.size(); i += 2) {
    if (file.tree().kind(items[i]) != pickle_kind::text || !file.is_tensor(items[i + 1])) continue;
    if (file.tree().text(items[i]) == "step") continue;
    TROUPE_ASSIGN(auto tensor, file.tensor(items[i + 1]));
    if (tensor.shape.empty()) continue;  // a tensor without dimensions is a counter of the optimizer, not a moment
    out.moments.emplace_back(file.tree().text(items[i]), std::move(tensor));
  }
  return out;
}

std::span<const pickle_ref> list_at(const pickle_tree& tree, std::optional<pickle_ref> dict, const char* key) {
  const auto v = dict ? tree.find(*dict, key) : std::nullopt;
  return v && tree.kind(*v) == pickle_kind::list ? tree.items(*v) : std::span<const pickle_ref>();
}

core::result<std::vector<kept_group>> groups_of(const torch_archive& file, pickle_ref optimizer) {
  const auto& tree = file.tree();
  const auto wrapped = tree.find(optimizer, "optimizer_state_dict");
  const pickle_ref inner = wrapped.value_or(optimizer);
  const auto states = tree.find(inner, "state");
  const auto flat = list_at(tree, optimizer, "fp32_groups_flat"), wide = list_at(tree, optimizer, "fp32_groups");
  const auto param_groups = list_at(tree, inner, "param_groups");
  std::vector<kept_group> out;
  for (size_t g = 0; g < param_groups.size(); ++g) {
    auto& group = out.emplace_back();
    const auto numbers = list_at(tree, param_groups[g], "params");
    const auto masters = g < wide.size() ? tree.items(wide[g]) : std::span<const pickle_ref>();
    group.is_flat = g < flat.size();
    for (size_t i = 0; i < numbers.size(); ++i) {
      const auto number = file.integer(numbers[i]);
      TROUPE_ASSIGN(auto item, kept_of(file, number && states ? tree.find(*states, *number) : std::nullopt));
      if (group.is_flat || i < masters.size()) {
        TROUPE_ASSIGN(auto master, file.tensor(group.is_flat ? flat[g] : masters[i]));
        item.master = std::move(master);
      }
      group.items.push_back(std::move(item));
    }
    if (group.is_flat && (group.items.size() != 1 || !group.items.front().master->is_contiguous()))
      return fail(error_kind::bad_input, fmt::format("group {} of the optimizer is not a flat group", g));
  }
  return out;
}

/// Finds the group of the optimizer that each parameter of the module belongs to, by counting the assignments that fit
/// shapes and values; stops counting at two, because only a single assignment is used.
class fitting {
 public:
  fitting(const torch_archive& file, const named_tensors& parameters, const std::vector<kept_group>& groups)
      : file_(file), parameters_(parameters), groups_(groups) {
    uint64_t kept = 0;
    for (const auto& g : groups) is_counted_ = is_counted_ && !g.is_flat, kept += g.items.size();
    skips_ = is_counted_ && kept <= parameters.size() ? parameters.size() - kept : parameters.size();
  }

  /// Returns the group of each parameter, none for a parameter in no group; nothing unless exactly one
  /// assignment of parameters to groups agrees with the file. Fails if the file cannot be read.
  core::result<std::optional<std::vector<std::optional<size_t>>>> run() {
    std::vector<std::optional<size_t>> out;
    state at{0, skips_, std::vector<uint64_t>(groups_.size(), 0)};
    const bool fits = parameters_.size() <= max_fitting_states && ways(at) == 1;
    if (lost_) return fail(*lost_);
    if (!fits) return std::nullopt;
    while (at.parameter < parameters_.size()) {
      for (size_t choice = 0; choice <= groups_.size(); ++choice) {
        const auto next = chosen(at, choice);
        if (!next || ways(*next) != 1) continue;
        out.push_back(choice < groups_.size() ? std::optional(choice) : std::nullopt);
        at = *next;
        break;
      }
      if (lost_) return fail(*lost_);
    }
    return out;
  }

 private:
  struct state {
    size_t parameter;
    uint64_t skips;
    std::vector<uint64_t> cursors;
    auto operator<=>(const state&) const = default;
  };

  /// Returns the state of the search after the next parameter is assigned to group number `choice`, or to no group if
  /// `choice` is the number of groups. Returns nothing if shape or values contradict that.
  [[nodiscard]] std::optional<state> chosen(const state& from, size_t choice) {
    state next = from;
    ++next.parameter;
    if (choice == groups_.size()) {
      if (next.skips == 0) return std::nullopt;
      --next.skips;
      return next;
    }
    const auto& group = groups_[choice];
    const auto& wanted = parameters_[from.parameter].second;
    uint64_t& cursor = next.cursors[choice];
    if (group.is_flat) {
      if (wanted.numel > group.length() - cursor || !rounds_to(cut(*group.items[0].master, cursor, wanted), wanted))
        return std::nullopt;
      cursor += wanted.numel;
      return next;
    }
    if (cursor == group.length()) return std::nullopt;
    const auto& item = group.items[cursor++];
    if (const auto* sample = item.sample(); sample != nullptr && sample->shape != wanted.shape) return std::nullopt;
    return !item.master || rounds_to(*item.master, wanted) ? std::optional(next) : std::nullopt;
  }

  using elements = std::array<std::byte, fitted_elements * 8>;
  /// Reads the first elements of a tensor; zeros if the file cannot be read, which run() returns as its error.
  elements first_of(const torch_tensor& t, uint64_t n) {
    elements out{};
    if (lost_) return out;
    if (auto ok = file_.read(t.begin, std::span(out).first(n * core::size_of(t.type))); !ok) lost_ = ok.error();
    return out;
  }

  [[nodiscard]] bool rounds_to(const torch_tensor& master, const torch_tensor& wanted) {
    if (!is_floating(master.type) || !is_floating(wanted.type)) return false;
    if (!master.is_contiguous() || !wanted.is_contiguous()) return true;
    const uint64_t n = std::min(fitted_elements, wanted.numel);
    const elements kept = first_of(master, n), module = first_of(wanted, n);
    elements rounded{};
    cast_elements(master.type, kept.data(), wanted.type, rounded.data(), n);
    return std::memcmp(rounded.data(), module.data(), n * core::size_of(wanted.type)) == 0;
  }

  /// Counts depth first with its own stack: a model may have more parameters than the program's stack has room for.
  int ways(const state& first) {
    std::vector<state> stack{first};
    while (!stack.empty()) {
      const state at = stack.back();
      if (ways_.contains(at)) {
        stack.pop_back();
        continue;
      }
      if (ways_.size() >= max_fitting_states) return 2;
      if (at.parameter == parameters_.size()) {
        bool full = true;
        for (size_t g = 0; g < groups_.size(); ++g) full = full && at.cursors[g] == groups_[g].length();
        ways_.emplace(at, full ? 1 : 0);
        continue;
      }
      int sum = 0;
      bool known = true;
      for (size_t choice = 0; choice <= groups_.size(); ++choice) {
        const auto next = chosen(at, choice);
        if (!next) continue;
        const auto found = ways_.find(*next);
        if (found == ways_.end()) {
          stack.push_back(*next);
          known = false;
        } else {
          sum = std::min(2, sum + found->second);
        }
      }
      if (known) ways_.emplace(at, sum);
    }
    return ways_.at(first);
  }

  const torch_archive& file_;
  const named_tensors& parameters_;
  const std::vector<kept_group>& groups_;
  bool is_counted_ = true;
  uint64_t skips_ = 0;
  std::map<state, int> ways_;
  std::optional<core::error> lost_;  ///< first error of reading the file
};

}  // namespace

core::result<std::optional<std::vector<tensor_entry>>> read_stage0(const torch_archive& file, uint32_t number,
                                                                   const named_tensors& parameters) {
  const auto optimizer = file.tree().find(file.root(), "optimizer");
  if (!optimizer || file.tree().kind(*optimizer) != pickle_kind::dict) return std::nullopt;
  const auto groups = groups_of(file, *optimizer);
  if (!groups) return fail(groups.error().in("optimizer"));
  TROUPE_ASSIGN(const auto fit, fitting(file, parameters, *groups).run());
  if (!fit || groups->empty()) return std::nullopt;
  std::vector<tensor_entry> out;
  std::vector<uint64_t> cursors(groups->size(), 0);
  for (size_t i = 0; i < parameters.size(); ++i) {
    const auto& of_group = (*fit)[i];
    if (!of_group) continue;
    const std::string& name = parameters[i].first;
    const torch_tensor& module = parameters[i].second;
    const auto& group = (*groups)[*of_group];
    uint64_t& cursor = cursors[*of_group];
    const auto& item = group.items[group.is_flat ? 0 : cursor];
    const auto add = [&](tensor_kind kind, const std::string& moment, const torch_tensor& t) -> core::result<void> {
      // A tensor of another size than its parameter is no moment and is left out.
      if (group.is_flat ? t.numel != item.master->numel : t.shape != module.shape) return {};
      const torch_tensor view = group.is_flat ? cut(t, cursor, module) : t;
      auto& entry = out.emplace_back(tensor_entry{name, kind, moment, t.type, module.shape, {}});
      return add_pieces(entry.pieces, number, view);
    };
    TROUPE_TRY(add(tensor_kind::master, "", item.master ? *item.master : module));
    for (const auto& [moment, t] : item.moments) TROUPE_TRY(add(tensor_kind::moment, moment, t));
    cursor += group.is_flat ? module.numel : 1;
  }
  return out;
}

core::result<update_counts> read_stage0_counts(const torch_archive& file) {
  const auto& tree = file.tree();
  update_counts out;
  const auto optimizer = tree.find(file.root(), "optimizer");
  if (!optimizer) return out;
  const pickle_ref inner = tree.find(*optimizer, "optimizer_state_dict").value_or(*optimizer);
  const auto states = tree.find(inner, "state");
  const bool is_dict = states && tree.kind(*states) == pickle_kind::dict;
  const auto items = is_dict ? tree.items(*states) : std::span<const pickle_ref>();
  for (size_t i = 0; i + 1 < items.size(); i += 2) {
    const auto steps = step_of_state(file, items[i + 1]);
    if (!steps) return fail(steps.error().in("optimizer"));
    const bool has_number = tree.kind(items[i]) == pickle_kind::integer;
    if (*steps) out.add_parameter(has_number ? fmt::format("number {}", tree.integer(items[i])) : "another", **steps);
  }
  for (const pickle_ref group : list_at(tree, inner, "param_groups")) {
    const auto steps = step_of_state(file, group);
    if (!steps) return fail(steps.error().in("optimizer"));
    if (*steps) out.add_group(**steps);
  }
  return out;
}

}  // namespace troupe::formats
