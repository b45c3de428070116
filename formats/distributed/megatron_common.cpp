#include "formats/distributed/megatron_common.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "core/text.hpp"
#include "formats/torch/archive.hpp"

namespace troupe::formats {
namespace {

namespace fs = std::filesystem;

std::optional<uint64_t> count_at(const torch_archive& file, std::optional<pickle_ref> dict, std::string_view key) {
  const auto v = dict ? file.tree().find(*dict, key) : std::nullopt;
  if (!v) return std::nullopt;
  const auto n = file.integer(*v);
  return n && *n >= 0 ? std::optional(static_cast<uint64_t>(*n)) : std::nullopt;
}

/// Returns the steps that the optimizer's groups have counted, from `optimizer.optimizer.param_groups` or
/// `optimizer.param_groups`.
std::optional<uint64_t> updates_of(const torch_archive& file) {
  const auto& tree = file.tree();
  auto at = tree.find(file.root(), "optimizer");
  if (!at) return std::nullopt;
  if (const auto inner = tree.find(*at, "optimizer")) at = inner;
  const auto groups = tree.find(*at, "param_groups");
  std::optional<uint64_t> out;
  if (groups && tree.kind(*groups) == pickle_kind::list)
    for (const pickle_ref g : tree.items(*groups))
      if (const auto n = count_at(file, g, "step")) out = std::max(out.value_or(0), *n);
  return out;
}

}  // namespace

core::result<source_run> read_megatron_common(const fs::path& path) {
  TROUPE_ASSIGN(const auto file, torch_archive::open(path));
  const auto& tree = file.tree();
  if (tree.kind(file.root()) != pickle_kind::dict)
    return fail(error_kind::bad_input, fmt::format("'{}': a dictionary was wanted", path.string()));
  source_run out;
  out.steps = count_at(file, file.root(), "iteration");
  out.applied_updates = updates_of(file);
  if (!out.applied_updates) out.applied_updates = out.steps;
  if (out.steps) out.schedule_position = static_cast<int64_t>(out.applied_updates.value_or(*out.steps));
  auto args = tree.find(file.root(), "args");
  if (args && tree.is_call(*args, "argparse", "Namespace")) args = tree.state(*args);
  out.samples = known_samples(count_at(file, args, "consumed_train_samples"), out.steps);
  out.samples_per_step = count_at(file, args, "global_batch_size");
  return out;
}

}  // namespace troupe::formats
