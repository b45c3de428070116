#include "formats/deepspeed/state_value.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "core/tensor_view.hpp"
#include "formats/megatron/source.hpp"
#include "formats/safetensors/header.hpp"
#include "formats/torch/pieces.hpp"

namespace troupe::formats {
namespace {

using form = state_value::form;

constexpr const char* form_names[] = {"None",     "a bool", "an int", "a float", "a text",
                                      "a tensor", "a dict", "a list", "a tuple", "an object"};
const char* name_of(form f) { return form_names[static_cast<size_t>(f)]; }

/// Maximum bytes of text for each byte of the pickle. A shared text, such as the name of a state, takes two bytes for
/// each further reference in the pickle, but is copied into every value that contains it.
constexpr uint64_t max_text_per_pickle_byte = 64;

struct state_reader {
  const torch_archive& file;
  uint32_t number;
  size_t left = max_state_values;
  uint64_t text_left = max_text_per_pickle_byte * file.tree().bytes_read();

  core::result<std::string> text(pickle_ref v) {
    const auto t = file.tree().text(v);
    if (t.size() > text_left)
      return fail(error_kind::limit,
                  fmt::format("'{}': its texts, counted at each use, are more than {} times as long as its pickle",
                              file.name(), max_text_per_pickle_byte));
    text_left -= t.size();
    return std::string(t);
  }

  core::result<state_value> read(pickle_ref v) {
    if (left == 0)
      return fail(error_kind::limit, fmt::format("'{}': more than {} values", file.name(), max_state_values));
    --left;
    if (file.is_tensor(v)) return tensor(v);
    const auto& t = file.tree();
    state_value out;
    switch (t.kind(v)) {
      case pickle_kind::none:
        break;
      case pickle_kind::boolean:
        out.is = form::boolean;
        out.boolean = t.boolean(v);
        break;
      case pickle_kind::integer:
        out.is = form::integer;
        out.integer = t.integer(v);
        break;
      case pickle_kind::real:
        out.is = form::real;
        out.real = t.real(v);
        break;
      case pickle_kind::text: {
        TROUPE_ASSIGN(auto copy, text(v));
        out.is = form::text;
        out.text = std::move(copy);
        break;
      }
      case pickle_kind::list:
      case pickle_kind::tuple:
        out.is = t.kind(v) == pickle_kind::list ? form::list : form::tuple;
        for (const auto i : t.items(v)) {
          auto item = read(i);
          if (!item) return item;
          out.items.push_back(std::move(*item));
        }
        break;
      case pickle_kind::dict:
        return dict(v);
      default:
        out.is = form::other;
        if (t.kind(v) == pickle_kind::object) out.text = t.global_name(t.target(v));
    }
    return out;
  }

  static state_value other() {
    state_value out;
    out.is = form::other;
    return out;
  }

  core::result<state_value> dict(pickle_ref v) {
    const auto& t = file.tree();
    state_value out;
    out.is = form::dict;
    std::map<state_value::key, size_t> places;
    const auto all = t.items(v);
    for (size_t i = 0; i + 1 < all.size(); i += 2) {
      state_value::key key;
      if (t.kind(all[i]) == pickle_kind::text) {
        TROUPE_ASSIGN(auto copy, text(all[i]));
        key = std::move(copy);
      } else if (t.kind(all[i]) == pickle_kind::integer) {
        key = t.integer(all[i]);
      } else {
        return other();
      }
      auto item = read(all[i + 1]);
      if (!item) return item;
      const auto [at, is_new] = places.emplace(key, out.keys.size());
      if (!is_new) {
        out.items[at->second] = std::move(*item);
        continue;
      }
      out.keys.push_back(std::move(key));
      out.items.push_back(std::move(*item));
    }
    return out;
  }

  core::result<state_value> tensor(pickle_ref v) const {
    const auto t = file.tensor(v);
    if (!t) return fail(t.error().in(file.name()));
    state_value out;
    out.is = form::tensor;
    out.tensor.type = t->type;
    out.tensor.shape = t->shape;
    if (auto ok = add_pieces(out.tensor.pieces, number, *t); !ok) return fail(ok.error().in(file.name()));
    return out;
  }
};

std::string shown_key(const state_value::key& k) {
  if (const auto* n = std::get_if<int64_t>(&k)) return fmt::to_string(*n);
  return shown(std::get<std::string>(k));
}

core::result<state_value> joined(state_value a, state_value b, const std::string& place) {
  if (a.tensor.shape.empty() || b.tensor.shape.empty()) return a;
  cut_rule rule{.kind = cut_kind::along, .dimension = 0};
  const tensor_entry* const both[] = {&a.tensor, &b.tensor};
  auto whole = merged_entry(rule, both);
  if (!whole) return fail(whole.error().in(place));
  a.tensor = std::move(*whole);
  return a;
}

}  // namespace

const state_value* state_value::find(const key& k) const {
  if (is != form::dict) return nullptr;
  const auto at = std::ranges::find(keys, k);
  return at == keys.end() ? nullptr : &items[static_cast<size_t>(at - keys.begin())];
}

state_value* state_value::find(const key& k) {
  return const_cast<state_value*>(static_cast<const state_value*>(this)->find(k));
}

void state_value::erase(const key& k) {
  const auto at = std::ranges::find(keys, k);
  if (is != form::dict || at == keys.end()) return;
  items.erase(items.begin() + (at - keys.begin()));
  keys.erase(at);
}

core::result<state_value> read_state(const torch_archive& file, pickle_ref value, uint32_t number) {
  return state_reader{file, number}.read(value);
}

core::result<state_value> merge_state(state_value a, state_value b, const std::string& place) {
  if (a.is != b.is || (a.is == form::other && a.text != b.text))
    return fail(error_kind::mismatch,
                fmt::format("'{}' is {} on one rank and {} on another", place, name_of(a.is), name_of(b.is)));
  if (a.is == form::tensor) return joined(std::move(a), std::move(b), place);
  if (a.is == form::list || a.is == form::tuple) {
    if (a.items.size() != b.items.size())
      return fail(error_kind::mismatch, fmt::format("'{}' has {} elements on one rank and {} on another", place,
                                                    a.items.size(), b.items.size()));
    for (size_t i = 0; i < a.items.size(); ++i) {
      auto item = merge_state(std::move(a.items[i]), std::move(b.items[i]), fmt::format("{}.{}", place, i));
      if (!item) return item;
      a.items[i] = std::move(*item);
    }
    return a;
  }
  if (a.is != form::dict) return a;
  state_value out;
  out.is = form::dict;
  std::map<state_value::key, size_t> left;
  for (size_t i = 0; i < a.keys.size(); ++i) left.emplace(a.keys[i], i);
  for (size_t i = 0; i < b.keys.size(); ++i) {
    if (const auto other = left.find(b.keys[i]); other != left.end()) {
      auto item = merge_state(std::move(a.items[other->second]), std::move(b.items[i]),
                              place.empty() ? shown_key(b.keys[i]) : fmt::format("{}.{}", place, shown_key(b.keys[i])));
      if (!item) return item;
      b.items[i] = std::move(*item);
      left.erase(other);
    }
    out.keys.push_back(b.keys[i]);
    out.items.push_back(std::move(b.items[i]));
  }
  for (size_t i = 0; i < a.keys.size(); ++i)
    if (left.contains(a.keys[i])) {
      out.keys.push_back(std::move(a.keys[i]));
      out.items.push_back(std::move(a.items[i]));
    }
  return out;
}

core::result<void> strip_paddings(state_value& shard) {
  auto* const inner = shard.find("optimizer_state_dict");
  auto* const base = inner == nullptr ? nullptr : inner->find("base_optimizer_state");
  auto* const states = base == nullptr ? nullptr : base->find("state");
  const auto* const paddings = inner == nullptr ? nullptr : inner->find("group_paddings");
  if (states == nullptr || states->is != form::dict || paddings == nullptr || paddings->is != form::list) return {};
  for (size_t i = 0; i < states->keys.size(); ++i) {
    const auto* const group = std::get_if<int64_t>(&states->keys[i]);
    if (group == nullptr || *group < 0 || static_cast<size_t>(*group) >= paddings->items.size())
      return fail(error_kind::bad_input,
                  fmt::format("group '{}' has a state and no entry in group_paddings", shown_key(states->keys[i])));
    const int64_t padding = paddings->items[static_cast<size_t>(*group)].integer;
    auto& group_state = states->items[i];
    for (size_t s = 0; s < group_state.keys.size(); ++s) {
      auto& t = group_state.items[s];
      if (t.is != form::tensor || t.tensor.shape.size() != 1 || group_state.keys[s] == state_value::key("step"))
        continue;
      if (padding < 0 || padding > t.tensor.shape[0])
        return fail(error_kind::bad_input, fmt::format("group {}: {} elements of padding in a tensor of {}", *group,
                                                       padding, t.tensor.shape[0]));
      auto kept = t.tensor;
      kept.pieces.clear();
      kept.shape[0] -= padding;
      append_elements(kept.pieces, t.tensor, 0, static_cast<uint64_t>(kept.shape[0]), 0);
      t.tensor = std::move(kept);
    }
  }
  return {};
}

void set_partitions(state_value& shard, uint32_t data_ranks) {
  auto* const inner = shard.find("optimizer_state_dict");
  if (inner == nullptr) return;
  const auto fill = [&](const char* key, int64_t value) {
    if (auto* const list = inner->find(key); list != nullptr && list->is == form::list)
      for (auto& item : list->items) {
        item = {};
        item.is = form::integer;
        item.integer = value;
      }
  };
  fill("partition_count", data_ranks);
  fill("group_paddings", 0);
}

}  // namespace troupe::formats
