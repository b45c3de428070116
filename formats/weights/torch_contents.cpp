#include "formats/weights/torch_contents.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "formats/tensors/tensor_list.hpp"

namespace troupe::formats {
namespace {

constexpr std::array<std::string_view, 4> nested_names{"module", "model", "state_dict", "model_state_dict"};
/// Deepest nesting of dictionaries that is searched for the model's dictionary.
constexpr int max_nesting = 4;

class contents_reader {
 public:
  explicit contents_reader(const torch_archive& archive) : archive_(archive), tree_(archive.tree()) {}

  core::result<torch_contents> run() {
    TROUPE_ASSIGN(const auto state, state_dict());
    list(state);
    return std::move(out_);
  }

 private:
  [[nodiscard]] bool is_dict(pickle_ref v) const { return tree_.kind(v) == pickle_kind::dict; }
  [[nodiscard]] bool is_text(pickle_ref v) const { return tree_.kind(v) == pickle_kind::text; }

  /// Calls `see(key, value)` for the entries of a dictionary until a call returns true. Returns whether one has.
  template <class See>
  bool any_entry(pickle_ref dict, const See& see) const {
    const auto items = tree_.items(dict);
    for (size_t i = 0; i + 1 < items.size(); i += 2)
      if (see(items[i], items[i + 1])) return true;
    return false;
  }

  [[nodiscard]] bool holds_tensors(pickle_ref v) const {
    return is_dict(v) &&
           any_entry(v, [&](pickle_ref key, pickle_ref value) { return is_text(key) && archive_.is_tensor(value); });
  }

  /// True if one of the dictionary's tensors is more than a single number, such as a loss.
  [[nodiscard]] bool holds_arrays(pickle_ref dict) const {
    return any_entry(dict, [&](pickle_ref key, pickle_ref value) {
      if (!is_text(key) || !archive_.is_tensor(value)) return false;
      const auto t = archive_.tensor(value);
      return !t || !t->shape.empty();
    });
  }

  [[nodiscard]] std::optional<pickle_ref> nested_in(pickle_ref dict, int depth) const {
    for (const auto name : nested_names) {
      const auto inner = tree_.find(dict, name);
      if (!inner || !is_dict(*inner)) continue;
      if (depth < max_nesting)
        if (const auto deeper = nested_in(*inner, depth + 1)) return deeper;
      if (holds_tensors(*inner)) return inner;
    }
    return std::nullopt;
  }

  core::result<pickle_ref> state_dict() {
    const auto root = tree_.root();
    const auto refused = [&](const std::string& why) {
      return fail(error_kind::bad_input, fmt::format("'{}' holds {}", archive_.name(), why));
    };
    if (!is_dict(root)) return refused("no dictionary of tensors");
    if (const auto nested = nested_in(root, 1)) return *nested;
    if (holds_tensors(root) && holds_arrays(root)) return root;
    std::vector<std::string> names;
    std::optional<pickle_ref> only;
    any_entry(root, [&](pickle_ref key, pickle_ref value) {
      if (!holds_tensors(value)) return false;
      names.push_back(key_text(key));
      only = value;
      return false;
    });
    if (names.size() > 1 && !holds_tensors(root))
      return refused(fmt::format("several dictionaries of tensors, {}: wanted the model's under one of {}",
                                 fmt::join(names, ", "), fmt::join(nested_names, ", ")));
    if (names.size() == 1) {
      for (const auto name : nested_names)
        if (const auto known = tree_.find(root, name); known && is_dict(*known) && tree_.items(*known).empty())
          return refused(
              fmt::format("an empty dictionary '{}', and the tensors of {}, which may be an average: to read "
                          "these as the model, save them in a file of their own",
                          name, names[0]));
      out_.dictionary = names[0];
      return *only;
    }
    if (holds_tensors(root)) return root;
    return refused("no dictionary of tensors");
  }

  void list(pickle_ref state) {
    std::map<std::string_view, size_t> place;
    any_entry(state, [&](pickle_ref key, pickle_ref value) {
      if (!is_text(key) || !archive_.is_tensor(value)) {
        leave_out(key, value);
        return false;
      }
      const auto [at, fresh] = place.try_emplace(tree_.text(key), out_.tensors.size());
      if (fresh)
        out_.tensors.emplace_back(std::string(tree_.text(key)), value);
      else
        out_.tensors[at->second].second = value;
      return false;
    });
    seen_.assign(tree_.size(), false);
    seen_[state] = true;
    if (state != tree_.root()) leave_out_around(tree_.root(), state, max_nesting);
  }

  /// Records the contents, besides the model, of the dictionaries that enclose the model's dictionary `state`.
  void leave_out_around(pickle_ref dict, pickle_ref state, int depth) {
    any_entry(dict, [&](pickle_ref key, pickle_ref value) {
      if (value == state) return false;
      const bool leads = depth > 0 && is_dict(value) && is_text(key) &&
                         std::ranges::find(nested_names, tree_.text(key)) != nested_names.end() &&
                         any_entry(value, [&](pickle_ref, pickle_ref inner) { return inner == state; });
      if (leads)
        leave_out_around(value, state, depth - 1);
      else
        leave_out(key, value);
      return false;
    });
  }

  void leave_out(pickle_ref key, pickle_ref value) {
    if (seen_.empty()) seen_.assign(tree_.size(), false);
    const auto found = tensors_in(value);
    if (archive_.is_tensor(value))
      out_.left_out.push_back(fmt::format("the tensor {}", key_text(key)));
    else if (found.count > 0 && !found.maker.empty() && found.count == 1)
      out_.left_out.push_back(fmt::format("{}, a tensor by {}", key_text(key), found.maker));
    else if (found.count > 0)
      out_.left_out.push_back(
          fmt::format("{}, which holds {} tensor{}", key_text(key), found.count, found.count == 1 ? "" : "s"));
  }

  [[nodiscard]] std::string key_text(pickle_ref key) const {
    if (is_text(key)) return fmt::format("'{}'", shown(tree_.text(key)));
    return tree_.kind(key) == pickle_kind::integer ? fmt::format("of the key {}", tree_.integer(key))
                                                   : std::string("of a key that is not text");
  }

  struct found_tensors {
    size_t count = 0;
    std::string maker;  ///< name of the function that makes the last array that Troupe does not read
  };

  /// True for a call that makes a tensor or a numpy array, whether or not Troupe reads it.
  [[nodiscard]] bool makes_array(pickle_ref v) const {
    if (tree_.kind(v) != pickle_kind::object || tree_.kind(tree_.target(v)) != pickle_kind::global) return false;
    const auto name = tree_.items(tree_.target(v));
    const auto module = tree_.text(name[0]), function = tree_.text(name[1]);
    return (module.starts_with("torch") && function.starts_with("_rebuild")) ||
           (module.starts_with("numpy") && function == "_reconstruct");
  }

  /// Counts the tensors in a value. A value that several containers share is counted once.
  found_tensors tensors_in(pickle_ref value) {
    found_tensors out;
    std::vector<pickle_ref> open{value};
    while (!open.empty()) {
      const pickle_ref v = open.back();
      open.pop_back();
      if (seen_[v]) continue;
      seen_[v] = true;
      if (makes_array(v)) {
        ++out.count;
        if (!archive_.is_tensor(v)) out.maker = tree_.global_name(tree_.target(v));
        continue;
      }
      if (tree_.kind(v) == pickle_kind::persistent || tree_.kind(v) == pickle_kind::global) continue;
      for (const pickle_ref inner : tree_.items(v)) open.push_back(inner);
      if (tree_.kind(v) == pickle_kind::object) open.push_back(tree_.args(v));
      if (const auto state = tree_.state(v)) open.push_back(*state);
    }
    return out;
  }

  const torch_archive& archive_;
  const pickle_tree& tree_;
  torch_contents out_;
  std::vector<bool> seen_;
};

}  // namespace

core::result<torch_contents> contents_of(const torch_archive& archive) { return contents_reader(archive).run(); }

}  // namespace troupe::formats
