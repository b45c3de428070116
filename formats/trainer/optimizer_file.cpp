#include "formats/trainer/optimizer_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "formats/torch/pieces.hpp"

namespace troupe::formats {
namespace {

/// Reads the state dict of a torch.optim optimizer from a torch.save file.
class optimizer_reader {
 public:
  optimizer_reader(const torch_archive& archive, uint32_t file) : archive_(archive), file_(file) {}

  core::result<optimizer_states> run() {
    const auto& tree = archive_.tree();
    const auto groups = tree.find(archive_.root(), "param_groups"), states = tree.find(archive_.root(), "state");
    if (!groups || !states || tree.kind(*groups) != pickle_kind::list || tree.kind(*states) != pickle_kind::dict)
      return refused("wanted the state_dict() of a torch.optim optimizer with 'state' and 'param_groups'");
    TROUPE_TRY(read_groups(*groups));
    const auto items = tree.items(*states);
    for (size_t i = 0; i + 1 < items.size(); i += 2) {
      auto all = states_of(shown_key(items[i]), items[i + 1]);
      if (!all) return fail(all.error().in(fmt::format("'{}': state {}", archive_.name(), shown_key(items[i]))));
      if (tree.kind(items[i]) == pickle_kind::text) {
        out_.by_name.insert_or_assign(std::string(tree.text(items[i])), std::move(*all));
      } else if (tree.kind(items[i]) == pickle_kind::integer && tree.integer(items[i]) >= 0) {
        out_.by_number.states.insert_or_assign(static_cast<uint64_t>(tree.integer(items[i])), std::move(*all));
      } else {
        return refused("a state's key is neither a number nor a name");
      }
    }
    return std::move(out_);
  }

 private:
  [[nodiscard]] tl::unexpected<core::error> refused(const std::string& why) const {
    return fail(error_kind::bad_input, fmt::format("'{}': {}", archive_.name(), why));
  }

  [[nodiscard]] std::string shown_key(pickle_ref key) const {
    const auto& tree = archive_.tree();
    if (tree.kind(key) == pickle_kind::integer) return fmt::to_string(tree.integer(key));
    return tree.kind(key) == pickle_kind::text ? "'" + shown(tree.text(key)) + "'" : "of another key";
  }

  core::result<void> read_groups(pickle_ref groups) {
    const auto& tree = archive_.tree();
    for (const pickle_ref g : tree.items(groups)) {
      const auto numbers = tree.find(g, "params");
      if (!numbers || tree.kind(*numbers) != pickle_kind::list) return refused("params of a group: a list was wanted");
      if (const auto step = tree.find(g, "step"))
        if (const auto n = steps_at(archive_, *step)) out_.counts.add_group(*n);
      auto& group = out_.by_number.groups.emplace_back();
      for (const pickle_ref n : tree.items(*numbers)) {
        if (tree.kind(n) == pickle_kind::text) continue;  // the file names parameters instead of numbering them
        if (tree.kind(n) != pickle_kind::integer || tree.integer(n) < 0)
          return refused("params of a group: whole numbers were wanted");
        group.push_back(static_cast<uint64_t>(tree.integer(n)));
        if ((parameters_ += 1) > max_tensors)
          return fail(error_kind::limit, fmt::format("'{}': more than {} parameters", archive_.name(), max_tensors));
      }
    }
    return {};
  }

  core::result<std::vector<tensor_entry>> states_of(const std::string& of, pickle_ref dict) {
    const auto& tree = archive_.tree();
    if (tree.kind(dict) != pickle_kind::dict) return fail(error_kind::bad_input, "a dictionary was wanted");
    std::vector<tensor_entry> all;
    const auto items = tree.items(dict);
    for (size_t i = 0; i + 1 < items.size(); i += 2) {
      if (tree.kind(items[i]) != pickle_kind::text) continue;
      const std::string key(tree.text(items[i]));
      if (key == "step") {
        const auto n = steps_at(archive_, items[i + 1]);
        if (!n) return fail(n.error().in("step"));
        out_.counts.add_parameter(of, *n);
      } else if (archive_.is_tensor(items[i + 1])) {
        TROUPE_ASSIGN(const auto t, archive_.tensor(items[i + 1]));
        tensor_entry entry{"", tensor_kind::moment, key, t.type, t.shape, {}};
        TROUPE_TRY(add_pieces(entry.pieces, file_, t));
        if ((pieces_ += entry.pieces.size()) > max_pieces)
          return fail(error_kind::limit, fmt::format("more than {} pieces", max_pieces));
        all.push_back(std::move(entry));
      }
    }
    return all;
  }

  const torch_archive& archive_;
  optimizer_states out_;
  uint32_t file_;
  size_t parameters_ = 0, pieces_ = 0;
};

}  // namespace

core::result<optimizer_states> read_optimizer_states(const torch_archive& archive, uint32_t file) {
  return optimizer_reader(archive, file).run();
}

}  // namespace troupe::formats
