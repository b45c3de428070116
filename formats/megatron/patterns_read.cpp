// Converts the patterns of a universal checkpoint from the values of a pickle to lists, as their writer published them.
// Leaves matching names against the patterns to patterns.cpp.
#include <fmt/format.h>

#include <optional>

#include "formats/megatron/rules.hpp"
#include "formats/torch/archive.hpp"

namespace troupe::formats {
namespace {

bool is_sequence(const pickle_tree& t, pickle_ref v) {
  return t.kind(v) == pickle_kind::list || t.kind(v) == pickle_kind::tuple;
}

/// Reads the values of a universal_checkpoint_info, one kind after the other. A member whose key is missing or None
/// keeps its default.
class info_reader {
 public:
  info_reader(const torch_archive& file, pickle_ref info) : file_(file), info_(info) {}

  core::result<universal_patterns> read() {
    if (tree_.kind(info_) != pickle_kind::dict) return bad("", "a dict");
    TROUPE_TRY(version());
    TROUPE_TRY(size("original_vocab_size", out_.original_vocabulary));
    int64_t padded_rows = 0;  // only checked: readers take the number of rows from a slice's shape
    TROUPE_TRY(size("padded_vocab_size", padded_rows));
    TROUPE_TRY(lists());
    TROUPE_TRY(sub_parameters());
    TROUPE_TRY(shard_widths());
    TROUPE_TRY(unsupported());
    return std::move(out_);
  }

 private:
  /// Pairs of a pattern of parameter names and the value that the checkpoint stores for it.
  using by_pattern = std::vector<std::pair<std::string, pickle_ref>>;

  [[nodiscard]] tl::unexpected<core::error> bad(std::string_view key, std::string_view wanted) const {
    return fail(error_kind::bad_input,
                fmt::format("'{}': universal_checkpoint_info: wanted {} for '{}'", file_.name(), wanted, key));
  }

  core::result<std::vector<std::string>> texts(std::string_view key, pickle_ref v) const {
    if (!is_sequence(tree_, v)) return bad(key, "a list of patterns");
    std::vector<std::string> out;
    for (const auto i : tree_.items(v)) {
      if (tree_.kind(i) != pickle_kind::text) return bad(key, "a list of patterns");
      out.emplace_back(tree_.text(i));
    }
    return out;
  }

  core::result<std::vector<int64_t>> numbers(std::string_view key, pickle_ref v) const {
    if (!is_sequence(tree_, v)) return bad(key, "a list of whole numbers");
    std::vector<int64_t> out;
    for (const auto i : tree_.items(v)) {
      if (tree_.kind(i) != pickle_kind::integer) return bad(key, "a list of whole numbers");
      out.push_back(tree_.integer(i));
    }
    return out;
  }

  core::result<sub_parameter_pattern> sub_parameter(pickle_ref v) const {
    static constexpr std::string_view key = "parameter_with_sub_params";
    // The entry is a dict, or a SubparamShape whose attributes have the names of the dict's keys.
    if (tree_.kind(v) == pickle_kind::object && tree_.state(v)) v = *tree_.state(v);
    const auto patterns = tree_.find(v, "patterns"), shape = tree_.find(v, "shape"),
               dimension = tree_.find(v, "partition_dim");
    if (!patterns || !shape || !is_sequence(tree_, *shape))
      return bad(key, "entries with 'patterns', 'shape' and 'partition_dim'");
    sub_parameter_pattern out;
    TROUPE_ASSIGN(auto names, texts(key, *patterns));
    out.patterns = std::move(names);
    if (dimension) {
      const auto d = file_.integer(*dimension);
      if (!d || *d < 0 || *d > 64) return bad(key, "a partition_dim from 0 on");
      out.dimension = static_cast<size_t>(*d);
    }
    const auto all = tree_.items(*shape);
    if (out.dimension >= all.size()) return bad(key, "a shape that has its partition_dim");
    for (size_t i = 0; i < all.size(); ++i) {
      out.view.push_back(0);
      if (i == out.dimension && is_sequence(tree_, all[i])) {
        TROUPE_ASSIGN(auto sizes, numbers(key, all[i]));
        if (sizes.empty() || sizes.size() > max_sub_parameters) return bad(key, "1 to 4096 parts");
        out.part_sizes = std::move(sizes);
        continue;
      }
      if (tree_.kind(all[i]) != pickle_kind::integer) return bad(key, "whole numbers in the shape");
      const int64_t n = tree_.integer(all[i]);
      if (i == out.dimension && (n < 1 || n > static_cast<int64_t>(max_sub_parameters)))
        return bad(key, "1 to 4096 parts");
      if (i == out.dimension)
        out.parts = static_cast<uint32_t>(n);
      else
        out.view.back() = n;
    }
    return out;
  }

  [[nodiscard]] std::optional<pickle_ref> given(std::string_view key) const {
    const auto v = tree_.find(info_, key);
    return v && tree_.kind(*v) != pickle_kind::none ? v : std::nullopt;
  }

  core::result<void> version() {
    const auto v = tree_.find(info_, "universal_checkpoint_version");
    if (!v) return {};
    if (tree_.kind(*v) == pickle_kind::real)
      out_.version = tree_.real(*v);
    else if (tree_.kind(*v) == pickle_kind::integer)
      out_.version = static_cast<double>(tree_.integer(*v));
    else
      return bad("universal_checkpoint_version", "a number");
    return {};
  }

  core::result<void> size(std::string_view key, int64_t& into) const {
    const auto v = given(key);
    if (!v) return {};
    const auto n = file_.integer(*v);
    if (!n || *n < 0) return bad(key, "a whole number from 0 on");
    into = *n;
    return {};
  }

  core::result<void> lists() {
    // only checked: copies of a parameter in several stages are merged alike
    std::vector<std::string> copied_over_stages;
    const std::pair<std::string_view, std::vector<std::string>*> all[] = {
        {"vocabulary_parameter_patterns", &out_.vocabulary},
        {"pipeline_replicated_parameter_patterns", &copied_over_stages},
        {"tp_replicated_parameter_patterns", &out_.replicated},
        {"parameter_to_average_patterns", &out_.averaged},
        {"parameter_with_row_parallelism_patterns", &out_.row_parallel},
        {"parameter_with_2_sub_params_cat_dim_0", &out_.two_parts}};
    for (const auto& [key, into] : all) {
      const auto v = given(key);
      if (!v) continue;
      TROUPE_ASSIGN(auto found, texts(key, *v));
      *into = std::move(found);
    }
    return {};
  }

  core::result<void> sub_parameters() {
    const auto v = given("parameter_with_sub_params");
    if (!v) return {};
    if (!is_sequence(tree_, *v)) return bad("parameter_with_sub_params", "a list");
    for (const auto i : tree_.items(*v)) {
      TROUPE_ASSIGN(auto one, sub_parameter(i));
      out_.sub_parameters.push_back(std::move(one));
    }
    return {};
  }

  core::result<by_pattern> dict(std::string_view key) const {
    by_pattern out;
    const auto v = given(key);
    if (!v) return out;
    if (tree_.kind(*v) != pickle_kind::dict) return bad(key, "a dict by pattern");
    const auto all = tree_.items(*v);
    for (size_t i = 0; i + 1 < all.size(); i += 2) {
      if (tree_.kind(all[i]) != pickle_kind::text) return bad(key, "a dict by pattern");
      out.emplace_back(tree_.text(all[i]), all[i + 1]);
    }
    return out;
  }

  core::result<void> shard_widths() {
    constexpr std::string_view key = "sub_param_shard_widths";
    TROUPE_ASSIGN(const auto all, dict(key));
    for (const auto& [pattern, v] : all) {
      if (!is_sequence(tree_, v)) return bad(key, "a list of lists of widths");
      std::vector<std::vector<int64_t>> table;
      for (const auto part : tree_.items(v)) {
        TROUPE_ASSIGN(auto row, numbers(key, part));
        table.push_back(std::move(row));
      }
      out_.shard_widths[pattern] = std::move(table);
    }
    return {};
  }

  core::result<void> unsupported() {
    TROUPE_ASSIGN(const auto all, dict("autotp_unsupported_parameter_patterns"));
    for (const auto& [pattern, v] : all)
      out_.unsupported[pattern] = tree_.kind(v) == pickle_kind::text ? std::string(tree_.text(v)) : "no reason given";
    return {};
  }

  const torch_archive& file_;
  const pickle_tree& tree_ = file_.tree();
  pickle_ref info_;
  universal_patterns out_;
};

}  // namespace

core::result<universal_patterns> read_universal_patterns(const torch_archive& file, pickle_ref info) {
  return info_reader(file, info).read();
}

}  // namespace troupe::formats
