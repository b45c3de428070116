#include "config/sections/partition_config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "config/document/scalars.hpp"
#include "config/sections/name_pattern.hpp"
#include "core/text.hpp"

namespace troupe::config {
namespace {

using on_problem = std::function<void(place, const std::string&, std::string)>;

/// Reads the keys of one mapping by name, and refuses all other keys at its end.
class mapping_reader {
 public:
  mapping_reader(const node& value, std::string name, const on_problem& problem)
      : value_(value), name_(std::move(name)), problem_(problem) {}

  /// Returns the value of a key that is present and not null; null if there is none.
  const node* take(const std::string& key) {
    known_.push_back(key);
    const node* found = value_.find(key);
    return found == nullptr || found->kind == node_kind::null ? nullptr : found;
  }
  void flag(const std::string& key, bool& into) {
    const node* v = take(key);
    if (v == nullptr) return;
    if (const auto read = boolean_in(*v))
      into = *read;
    else
      refuse(*v, key, "true or false");
  }
  void texts(const std::string& key, std::vector<std::string>& into) {
    const node* v = take(key);
    if (v == nullptr) return;
    if (v->kind != node_kind::sequence) return refuse(*v, key, "a list of texts");
    for (const node_ptr& item : v->items) {
      if (!item->is_scalar()) return refuse(*item, key, "a text");
      into.push_back(item->text);
    }
  }
  std::optional<int64_t> integer(const node& v, const std::string& key, int64_t least) {
    const auto read = integer_in(v);
    const bool fits = read && read->magnitude <= uint64_t{std::numeric_limits<int64_t>::max()};
    const int64_t number = fits ? static_cast<int64_t>(read->magnitude) * (read->negative ? -1 : 1) : 0;
    if (fits && number >= least) return number;
    refuse(v, key, fmt::format("an integer of at least {}", least));
    return std::nullopt;
  }
  void refuse(const node& at, const std::string& key, const std::string& wanted) {
    problem_(at.at, name_ + key, fmt::format("wanted {}, got {}", wanted, shown(at)));
  }
  void end() {
    for (const entry& e : value_.entries)
      if (std::ranges::find(known_, e.name) == known_.end())
        problem_(e.at, name_ + e.name, fmt::format("unknown key; wanted one of {}", fmt::join(known_, ", ")));
  }

 private:
  const node& value_;
  std::string name_;
  const on_problem& problem_;
  std::vector<std::string> known_;
};

constexpr partition_type types[] = {partition_type::column, partition_type::row, partition_type::skip};

void read_type(mapping_reader& from, layer_spec& into) {
  const node* v = from.take("partition_type");
  if (v == nullptr) return;
  const std::string text = core::lowered(v->text);
  for (const partition_type one : types)
    if (text == name_of(one)) {
      into.type = one;
      return;
    }
  from.refuse(*v, "partition_type", "column, row or skip");
}

void read_shape(mapping_reader& from, layer_spec& into) {
  const node* v = from.take("shape");
  if (v == nullptr) return;
  if (v->kind != node_kind::sequence || v->items.empty()) return from.refuse(*v, "shape", "a list, such as [3, -1]");
  for (const node_ptr& item : v->items) {
    shape_part part{item->kind == node_kind::sequence, {}};
    if (part.nested && item->items.empty()) return from.refuse(*item, "shape", "sizes of blocks");
    if (!part.nested) {
      const auto size = from.integer(*item, "shape", -1);
      if (!size) return;
      if (*size == 0) return from.refuse(*item, "shape", "a size, or -1");
      part.sizes.push_back(*size);
    }
    for (const node_ptr& block : part.nested ? item->items : std::vector<node_ptr>()) {
      const auto size = from.integer(*block, "shape", 1);
      if (!size) return;
      part.sizes.push_back(*size);
    }
    into.shape.push_back(std::move(part));
  }
}

layer_spec read_spec(const node& value, const std::string& name, const on_problem& problem) {
  mapping_reader from(value, name + ".", problem);
  layer_spec out;
  from.texts("patterns", out.patterns);
  for (const std::string& pattern : out.patterns)
    if (const auto read = matched_at_start(pattern, {}); !read)
      problem(from.take("patterns")->at, name + ".patterns", read.error().text);
  if (out.patterns.empty()) problem(value.at, name, "wanted patterns of parameters' names, got none");
  read_type(from, out);
  read_shape(from, out);
  if (const node* v = from.take("partition_dim"))
    if (const auto n = from.integer(*v, "partition_dim", 0))
      out.dimension = static_cast<uint32_t>(std::min<int64_t>(*n, std::numeric_limits<uint32_t>::max()));
  from.texts("model_types", out.model_types);
  from.flag("gather_output", out.gather_output);
  // Reads and ignores grad_allreduce: gradients of parameters that are not split are always summed over the tensor
  // ranks that compute different parts of them.
  bool unread = false;
  from.flag("grad_allreduce", unread);
  from.end();
  return out;
}

}  // namespace

std::string_view name_of(partition_type type) {
  return type == partition_type::column ? "column" : type == partition_type::row ? "row" : "skip";
}

partition_section read_partition(const node& value, const on_problem& problem) {
  partition_section out;
  out.given = !value.entries.empty();
  const node* strict = value.find("strict_mode");
  out.at = strict == nullptr ? value.at : strict->at;
  mapping_reader from(value, "", problem);
  from.flag("use_default_specs", out.use_default_specs);
  from.flag("strict_mode", out.strict_mode);
  if (const node* v = from.take("layer_specs")) {
    if (v->kind != node_kind::sequence) from.refuse(*v, "layer_specs", "a list of mappings");
    for (size_t i = 0; i < v->items.size(); ++i) {
      const node& item = *v->items[i];
      const std::string name = fmt::format("layer_specs[{}]", i);
      if (item.kind == node_kind::mapping)
        out.specs.push_back(read_spec(item, name, problem));
      else
        from.refuse(item, name, "a mapping");
      if (item.kind == node_kind::mapping) out.specs.back().at = item.at;
    }
  }
  for (const char* unread : {"tp_size", "embedding_partition_dim", "lm_head_patterns"}) from.take(unread);
  from.end();
  return out;
}

}  // namespace troupe::config
