#include "formats/deepspeed/optimizer_steps.hpp"

#include <fmt/format.h>

#include <string_view>

#include "core/number.hpp"
#include "core/text.hpp"
#include "formats/deepspeed/run.hpp"
#include "formats/trainer/update_counts.hpp"

namespace troupe::formats {
namespace {

using core::refused;

constexpr std::string_view other_save =
    "they are from different saves; put the files of one save into the folder, or name another checkpoint by --tag";

/// Returns the step in a folder's name if it is DeepSpeed's default tag, such as `global_step12`.
std::optional<uint64_t> step_of_tag(std::string_view name) {
  constexpr std::string_view begin = "global_step";
  if (!name.starts_with(begin)) return std::nullopt;
  name.remove_prefix(begin.size());
  return core::take_number<uint64_t>(name);
}

}  // namespace

core::result<std::optional<uint64_t>> step_of_state(const torch_archive& file, pickle_ref state) {
  const auto step = file.tree().find(state, "step");
  return step ? step_in(file, *step) : core::result<std::optional<uint64_t>>(std::nullopt);
}

core::result<std::optional<uint64_t>> step_in(const torch_archive& file, pickle_ref value) {
  const auto kind = file.tree().kind(value);
  if (file.is_tensor(value)) {
    if (!file.unread_type(value).empty()) return std::nullopt;
    TROUPE_ASSIGN(const auto t, file.tensor(value));
    const bool is_exact = t.type == core::dtype::f32 || t.type == core::dtype::f64 || t.type == core::dtype::i64 ||
                          t.type == core::dtype::i32;
    if (t.numel != 1 || !is_exact) return std::nullopt;
  } else if (kind != pickle_kind::integer && kind != pickle_kind::real) {
    return std::nullopt;
  }
  const auto steps = steps_at(file, value);
  if (!steps) return core::fail(steps.error().in("step"));
  return std::optional(*steps);
}

core::result<void> optimizer_steps::add(const std::string& where, uint64_t steps) {
  if (!steps_) {
    steps_ = steps;
    first_ = where;
  }
  if (steps == *steps_) return {};
  return refused(fmt::format("the optimizer counts {} updates in '{}' and {} in '{}': {}", *steps_, first_, steps,
                             where, other_save));
}

bool optimizer_steps::differs_from(const source_run& run) const {
  return steps_ && run.applied_updates && *steps_ != *run.applied_updates;
}

core::result<void> optimizer_steps::check_model(const std::filesystem::path& model, const source_run& run,
                                                const weight_comparison& weights) const {
  if (!differs_from(run)) return {};
  const auto tagged = step_of_tag(model.parent_path().filename().string());
  const bool is_of_tag = !tagged || !run.steps || *tagged == *run.steps;
  const bool is_one_save =
      weights.has_weights ? weights.differing.empty() : *steps_ == *run.applied_updates + 1 && is_of_tag;
  if (is_one_save) return {};
  return refused(fmt::format(
      "'{}' counts {} updates (global_steps {} less the skipped ones), the optimizer {} in '{}'{}: {}", model.string(),
      *run.applied_updates, run.steps.value_or(*run.applied_updates), *steps_, first_,
      weights.differing.empty() ? ""
                                : fmt::format(", where the master of '{}' is another", core::shown(weights.differing)),
      other_save));
}

std::optional<std::string> optimizer_steps::settle(source_run& run) const {
  if (!steps_) return std::nullopt;
  const auto before = run.applied_updates;
  run.applied_updates = *steps_;
  if (!run.steps) run.steps = *steps_;
  if (!before || *before == *steps_) return std::nullopt;
  if (!run.schedule_position) run.schedule_position = static_cast<int64_t>(*before);
  return fmt::format(
      "the optimizer counts {} updates, the model file {} (global_steps {} less the skipped ones): the optimizer "
      "continues with {}, the run with step {}",
      *steps_, *before, *run.steps, *steps_, *run.steps);
}

core::result<void> check_steps_of_model(const torch_archive& file, const source_run& run) {
  const auto steps = global_steps_of(file);
  if (!steps || !run.steps || *steps == *run.steps) return {};
  return refused(fmt::format("'{}' is of step {}, the first model file of step {}: {}", file.name(), *steps, *run.steps,
                             other_save));
}

}  // namespace troupe::formats
