#include "formats/trainer/trainer.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "core/json_text.hpp"
#include "formats/names/name_map.hpp"
#include "formats/torch/archive.hpp"
#include "formats/trainer/numbered_states.hpp"
#include "formats/trainer/optimizer_file.hpp"
#include "formats/trainer/update_counts.hpp"
#include "storage/files/file_system.hpp"

namespace troupe::formats {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view state_name = "trainer_state.json";
constexpr std::array<std::string_view, 2> optimizer_names{"optimizer.pt", "optimizer.bin"};
constexpr std::array<std::string_view, 2> scheduler_names{"scheduler.pt", "scheduler.bin"};
/// Beginning of the names of random-state files; Accelerate writes one for each process.
constexpr std::string_view random_states_begin = "random_states_";
/// Beginnings of the names of files whose contents are not imported.
constexpr std::array<std::string_view, 10> left_names{
    "rng_state",  random_states_begin, "training_args.bin",  "scaler.pt",     "sampler",
    "optimizer_", "scheduler_",        "custom_checkpoint_", "dl_state_dict", "model_1"};

/// Replaces NaN and Infinity, which Python writes for losses and JSON does not allow, by 0, padded to the same length.
std::string with_numbers(std::string text) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') {
      for (++i; i < text.size() && text[i] != '"'; ++i)
        if (text[i] == '\\') ++i;
      continue;
    }
    for (const std::string_view word : {"NaN", "-Infinity", "Infinity"})
      if (text.compare(i, word.size(), word) == 0)
        text.replace(i, word.size(), std::string(word.size() - 1, ' ') + "0");
  }
  return text;
}

/// Returns the first file of `names` that exists in the folder.
template <size_t n>
std::optional<fs::path> first_of(const fs::path& folder, const std::array<std::string_view, n>& names) {
  std::error_code ec;
  for (const auto name : names)
    if (fs::is_regular_file(folder / name, ec)) return folder / name;
  return std::nullopt;
}

core::result<uint64_t> step_of_state_file(const fs::path& file) {
  TROUPE_ASSIGN(auto text, storage::read_small_file(storage::real_files(), file, max_trainer_state_bytes));
  // No JSON values are built for the run's log, which may be long.
  const auto watch = [](int depth, nlohmann::json::parse_event_t event, nlohmann::json&) {
    using enum nlohmann::json::parse_event_t;
    return depth == 0 || (event != object_start && event != array_start);
  };
  const auto json = core::parse_json(with_numbers(std::move(text)), core::max_json_depth, watch);
  if (!json) return fail(json.error().kind, fmt::format("'{}': {}", file.string(), json.error().why));
  const auto at = json->is_object() ? json->find("global_step") : json->end();
  if (at == json->end() || !at->is_number_unsigned() || at->get<uint64_t>() > max_exact_steps)
    return fail(error_kind::bad_input, fmt::format("'{}': a number of steps was wanted as global_step", file.string()));
  return at->get<uint64_t>();
}

class trainer_reader {
 public:
  explicit trainer_reader(tensor_source s) : out_(std::move(s)) {}

  core::result<tensor_source> run() {
    std::error_code ec;
    const auto optimizer = first_of(out_.folder, optimizer_names);
    const auto schedule = first_of(out_.folder, scheduler_names);
    const bool is_trainers = fs::is_regular_file(out_.folder / state_name, ec), has_run = out_.run.steps.has_value();
    if (!optimizer && !is_trainers && !(schedule && has_run)) return std::move(out_);
    if (!has_run) out_.format = is_trainers ? "transformers Trainer" : "Accelerate";
    if (has_run) updates_ = out_.run.applied_updates;
    if (is_trainers) TROUPE_TRY(read_step());
    if (optimizer) TROUPE_TRY(read_optimizer(*optimizer));
    if (is_trainers) TROUPE_TRY(check_updates());
    if (!out_.run.steps) out_.run.steps = updates_;
    if (!out_.run.steps && schedule) steps_by_schedule(*schedule);
    out_.run.applied_updates = updates_ ? updates_ : out_.run.steps;
    if (out_.run.steps) out_.run.schedule_position = static_cast<int64_t>(*out_.run.applied_updates);
    if (schedule && out_.run.steps && !by_schedule_) read_schedule(*schedule, is_trainers);
    say_others();
    return std::move(out_);
  }

 private:
  core::result<void> read_step() {
    TROUPE_ASSIGN(const auto steps, step_of_state_file(out_.folder / state_name));
    out_.run.steps = steps;
    out_.remarks.push_back(
        fmt::format("{}: step {} is imported, its log and the position in the data are not", state_name, steps));
    return {};
  }

  /// Compares the optimizer's counter with the step of trainer_state.json. An optimizer that skips steps counts fewer
  /// updates, which is a remark; more updates than steps are an error.
  core::result<void> check_updates() {
    const uint64_t steps = *out_.run.steps;
    if (!updates_ || *updates_ == steps) return {};
    if (*updates_ > steps)
      return fail(error_kind::bad_input,
                  fmt::format("'{}': the optimizer counts {} updates, {} only {} steps: they are from different saves; "
                              "put the files of one save into the folder, or name another checkpoint by --tag",
                              out_.folder.string(), *updates_, state_name, steps));
    out_.remarks.push_back(
        fmt::format("the optimizer counts {} updates, {} {} steps: the others were skipped, or the files are from "
                    "different saves",
                    *updates_, state_name, steps));
    return {};
  }

  core::result<void> read_optimizer(const fs::path& file) {
    const auto number = static_cast<uint32_t>(out_.files.size());
    auto numbered = std::make_shared<numbered_states>();
    const auto archive = torch_archive::open(file);
    core::result<void> did = archive ? core::result<void>() : fail(archive.error());
    if (!archive) out_.lost_states = {file, archive.error()};
    if (archive) {
      auto states = read_optimizer_states(*archive, number);
      if (states) {
        updates_ = states->counts.updates();
        if (auto line = states->counts.difference())
          out_.remarks.push_back(fmt::format("{}: {}", file.filename().string(), *line));
        out_.files.push_back(file_of(file, *archive));
        if (!states->by_name.empty()) return add_named(file, states->by_name);
        *numbered = std::move(states->by_number);
      } else {
        did = fail(states.error());
      }
    }
    numbered->file = file;
    if (!did) numbered->problem = did.error();
    out_.numbered = std::move(numbered);
    return {};
  }

  /// Adds `states` as moments, for a file that identifies parameters by name, such as FSDP's full optimizer states.
  core::result<void> add_named(const fs::path& file, std::map<std::string, std::vector<tensor_entry>>& states) {
    const name_map names(out_);
    auto numbered = std::make_shared<numbered_states>();
    numbered->file = file;
    tensor_source named = out_;
    size_t parameters = 0;
    for (auto& [name, all] : states) {
      auto own = names.find(name);
      for (const auto& t : named.tied)
        if (own && t.name == *own) own = t.of;
      const auto is_it = [&](const tensor_entry& t) { return own && t.name == *own; };
      const auto weight = std::ranges::find_if(named.tensors, is_it);
      for (auto& t : all)
        if (weight == named.tensors.end() || weight->shape != t.shape) {
          numbered->problem = core::error{
              error_kind::mismatch,
              fmt::format("'{}': its {} of '{}' has the shape {}, wanted {}", file.string(), shown(t.moment),
                          shown(name), t.shape,
                          weight == named.tensors.end() ? "the shape of a parameter, but the weights do not have it"
                                                        : fmt::format("{}", weight->shape))};
          out_.numbered = std::move(numbered);
          return {};
        }
      if (all.empty()) continue;
      ++parameters;
      weight->kind = tensor_kind::master;
      for (auto& t : all) {
        t.name = *own;
        more_.push_back(std::move(t));
      }
    }
    named.tensors.insert(named.tensors.end(), more_.begin(), more_.end());
    named.remarks.push_back(
        fmt::format("{}: the states of {} parameters are imported", file.filename().string(), parameters));
    TROUPE_TRY(complete(named));
    out_ = std::move(named);
    return {};
  }

  /// Returns the position of the learning-rate schedule in `file`; if the file does not state it, adds a remark.
  std::optional<int64_t> position_of(const fs::path& file) {
    const auto archive = torch_archive::open(file);
    const auto at = archive ? archive->tree().find(archive->root(), "last_epoch") : std::nullopt;
    const auto position = at ? archive->integer(*at) : core::result<int64_t>(-1);
    if (position && *position >= 0) return *position;
    out_.remarks.push_back(fmt::format("{}: not imported: {}", file.filename().string(),
                                       archive ? "it has no last_epoch, its position" : archive.error().text));
    return std::nullopt;
  }

  /// Sets the number of steps to the position of the learning-rate schedule in `file`, for an optimizer without
  /// counters, such as torch.optim's SGD. If Accelerate saved several processes, whose schedule advances once for each
  /// process in a step, divides the position by their number.
  void steps_by_schedule(const fs::path& file) {
    const auto position = position_of(file);
    if (!position) return;
    const auto files = names_with(std::span(&random_states_begin, 1)).size();
    const auto processes = std::max<int64_t>(1, static_cast<int64_t>(files));
    const bool once_each = processes > 1 && *position % processes == 0;
    const auto steps = *position / (once_each ? processes : 1);
    out_.remarks.push_back(fmt::format(
        "{}: its position, {}{}, is used as the number of steps, which no other file states", file.filename().string(),
        *position, once_each ? fmt::format(", counted once for each of {} processes", processes) : ""));
    by_schedule_ = true;
    if (steps > 0) out_.run.steps = static_cast<uint64_t>(steps);
  }

  /// Returns the names in the folder that begin with one of `begins`, ascending.
  [[nodiscard]] std::vector<std::string> names_with(std::span<const std::string_view> begins) const {
    return storage::names_in(out_.folder, [&](std::string_view name) {
      return std::ranges::any_of(begins, [&](std::string_view begin) { return name.starts_with(begin); });
    });
  }

  void read_schedule(const fs::path& file, bool is_trainers) {
    const auto name = file.filename().string();
    const auto found = position_of(file);
    if (!found) return;
    const int64_t position = *found;
    const auto updates = static_cast<int64_t>(*out_.run.applied_updates);
    // in Accelerate the learning-rate schedule may advance once per process in each step
    if (!is_trainers && updates > 0 && position != updates && position % updates == 0) {
      out_.remarks.push_back(fmt::format("{}: it counts {} for {} updates, one for each process: {} is imported", name,
                                         position, updates, updates));
      return;
    }
    out_.run.schedule_position = position;
    out_.remarks.push_back(
        fmt::format("{}: its position, {}, is imported; the job defines the schedule", name, position));
  }

  void say_others() {
    std::vector<std::string> names;
    std::error_code ec;
    for (const auto& name : names_with(left_names))
      if (fs::is_regular_file(out_.folder / name, ec)) names.push_back(shown(name));
    if (!names.empty()) out_.remarks.push_back(fmt::format("not imported: {}", fmt::join(names, ", ")));
  }

  tensor_source out_;
  std::optional<uint64_t> updates_;
  bool by_schedule_ = false;
  std::vector<tensor_entry> more_;
};

}  // namespace

core::result<tensor_source> with_trainer_states(tensor_source s) {
  TROUPE_ASSIGN(auto out, trainer_reader(std::move(s)).run());
  // An error is ignored: a caller that knows the model may still assign the states by the model's order of parameters.
  if (!out.parameter_order.empty()) static_cast<void>(name_states(out, parameters_of(out)));
  return out;
}

void say_other_trainer_step(tensor_source& s) {
  if (!s.run.steps || s.folder.empty()) return;
  const auto file = s.folder.parent_path() / state_name;
  std::error_code ec;
  if (!fs::is_regular_file(file, ec)) return;
  const auto steps = step_of_state_file(file);
  if (!steps || *steps == *s.run.steps) return;
  s.remarks.push_back(fmt::format("step {} of the {} checkpoint is used, not step {} of '{}' above it", *s.run.steps,
                                  s.format, *steps, file.string()));
}

bool has_optimizer_file(const fs::path& folder) {
  return std::ranges::any_of(optimizer_names, [&](std::string_view name) { return storage::is_there(folder / name); });
}

}  // namespace troupe::formats
