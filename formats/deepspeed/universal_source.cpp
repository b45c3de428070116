#include "formats/deepspeed/universal_source.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <system_error>

#include "core/tensor_view.hpp"
#include "formats/deepspeed/files.hpp"
#include "formats/deepspeed/lists.hpp"
#include "formats/deepspeed/optimizer_steps.hpp"
#include "formats/deepspeed/part.hpp"
#include "formats/deepspeed/run.hpp"
#include "formats/names/layer_names.hpp"
#include "formats/safetensors/header.hpp"
#include "formats/torch/pieces.hpp"

namespace troupe::formats {
namespace {

namespace fs = std::filesystem;
using shape_map = std::map<std::string, std::vector<int64_t>, std::less<>>;

constexpr std::string_view master_file = "fp32", step_file = "step.pt";

using core::refused;

core::result<std::vector<std::string>> names_in(const fs::path& folder, size_t most) {
  std::vector<std::string> out;
  std::error_code ec;
  for (fs::directory_iterator at(folder, ec), end; !ec && at != end; at.increment(ec)) {
    out.push_back(at->path().filename().string());
    if (out.size() > most)
      return fail(error_kind::limit, fmt::format("'{}' holds more than {} names", folder.string(), most));
  }
  if (ec) return refused(fmt::format("cannot read the folder '{}': {}", folder.string(), ec.message()));
  std::ranges::sort(out);
  return out;
}

class universal_reader {
 public:
  core::result<tensor_source> run(const fs::path& folder);

 private:
  core::result<void> read_states();
  core::result<void> read_state(const std::string& name, const std::string& state);
  core::result<void> read_step(const std::string& name);
  core::result<void> add_model(const deepspeed_files& files);
  core::result<void> settle_steps(const fs::path& model, const weight_comparison& weights);
  [[nodiscard]] core::result<void> check_listed(const std::filesystem::path& model) const;
  void say_unlisted(const std::set<std::string>& names);
  void give_shapes();

  tensor_source out_;
  shape_map listed_;  ///< name of a trained parameter -> shape in the first model file that lists it
  optimizer_steps steps_;
  int64_t stage_ = 0;
  bool is_cut_ = false;  ///< true: the model is cut over tensor-parallel ranks or pipeline stages
};

core::result<tensor_source> universal_reader::run(const fs::path& folder) {
  out_.folder = folder;
  TROUPE_ASSIGN(const auto optimizer, open_numbered(out_.files, folder / "zero/optimizer_state.pt"));
  const auto stage = optimizer.tree().find(optimizer.root(), "zero_stage");
  // BF16_Optimizer writes no zero_stage; its states are in the form of stage 1.
  const auto value = stage ? optimizer.integer(*stage) : core::result<int64_t>(1);
  if (!value) return fail(value.error().in(fmt::format("'{}': zero_stage", optimizer.name())));
  stage_ = *value;
  out_.format = fmt::format("DeepSpeed universal, from ZeRO-{}", stage_);
  TROUPE_TRY(read_states());
  TROUPE_ASSIGN(const auto files, list_deepspeed_files(folder, model_file_names::both));
  TROUPE_TRY(add_model(files));
  if (!out_.run.loss_scale) out_.run.loss_scale = loss_scale_of(optimizer, optimizer.root());
  TROUPE_TRY(complete(out_));
  if (!is_cut_) return std::move(out_);
  return with_kept_names(std::move(out_));
}

core::result<void> universal_reader::read_states() {
  TROUPE_ASSIGN(const auto names, names_in(out_.folder / "zero", max_tensors));
  for (const auto& name : names) {
    std::error_code ec;
    if (!fs::is_directory(out_.folder / "zero" / name, ec)) continue;
    TROUPE_ASSIGN(const auto states, names_in(out_.folder / "zero" / name, max_deepspeed_files));
    for (const auto& state : states)
      if (state.ends_with(".pt"))
        if (auto ok = state == step_file ? read_step(name) : read_state(name, state.substr(0, state.size() - 3)); !ok)
          return fail(ok.error().in(fmt::format("'{}'", (out_.folder / "zero" / name / state).string())));
  }
  return {};
}

core::result<void> universal_reader::read_state(const std::string& name, const std::string& state) {
  TROUPE_ASSIGN(const auto file, open_numbered(out_.files, out_.folder / "zero" / name / (state + ".pt")));
  TROUPE_ASSIGN(const auto tensor, file.tensor(file.tree().find(file.root(), "param").value_or(file.root())));
  const bool is_master = state == master_file;
  auto& entry = out_.tensors.emplace_back(tensor_entry{name,
                                                       is_master ? tensor_kind::master : tensor_kind::moment,
                                                       is_master ? "" : state,
                                                       tensor.type,
                                                       tensor.shape,
                                                       {}});
  return add_pieces(entry.pieces, file.number, tensor);
}

/// Reads the step counter of the parameter `name`, and compares it with the counters of the parameters read before.
core::result<void> universal_reader::read_step(const std::string& name) {
  TROUPE_ASSIGN(const auto file, torch_archive::open(out_.folder / "zero" / name / step_file));
  TROUPE_ASSIGN(const auto steps, step_in(file, file.root()));
  return steps ? steps_.add(file.name(), *steps) : core::result<void>();
}

core::result<void> universal_reader::settle_steps(const fs::path& model, const weight_comparison& weights) {
  TROUPE_TRY(steps_.check_model(model, out_.run, weights));
  if (auto line = steps_.settle(out_.run)) out_.remarks.push_back(std::move(*line));
  return {};
}

/// Refuses a folder that lacks the weights of a parameter in the lists of the model files, of which `model` is the
/// first: without them the parameter would look like a frozen one.
core::result<void> universal_reader::check_listed(const fs::path& model) const {
  std::set<std::string_view> found;
  for (const auto& t : out_.tensors)
    if (t.kind == tensor_kind::master) found.insert(t.name);
  std::vector<std::string> missing;
  for (const auto& [name, shape] : listed_)
    if (!found.contains(name)) missing.push_back(name);
  if (missing.empty()) return {};
  return refused(
      fmt::format("'{}' is missing, although param_shapes of '{}' lists the parameter ({} of {} are missing); copy the "
                  "folder again, or convert the checkpoint again with ds_to_universal",
                  (out_.folder / "zero" / missing.front() / master_file).string() + ".pt", model.string(),
                  missing.size(), listed_.size()));
}

/// Adds a remark about folders of parameters that no model file lists.
void universal_reader::say_unlisted(const std::set<std::string>& names) {
  if (names.empty()) return;
  std::vector<std::string> shown_names;
  for (const auto& name : names)
    if (shown_names.size() < max_listed_left_out) shown_names.push_back(shown(name));
  out_.remarks.push_back(
      fmt::format("{}folders under zero that param_shapes of the model file does not list ({}): {}{}", left_out_mark,
                  names.size(), fmt::join(shown_names, ", "), names.size() > shown_names.size() ? ", ..." : ""));
}

/// Sets the shapes of parameters that stage 3 left flat because no tensor parallelism needs their shape.
void universal_reader::give_shapes() {
  for (auto& t : out_.tensors) {
    const auto shape = listed_.find(t.name);
    if (shape != listed_.end() && t.shape.size() == 1 && core::numel_of(shape->second) == core::numel_of(t.shape))
      t.shape = shape->second;
  }
}

core::result<void> universal_reader::add_model(const deepspeed_files& files) {
  // Tensors from the folder `zero` whose names no model file lists as trained parameters: frozen parameters, buffers,
  // second names of tied parameters, and parameters that the lists lack, with their moments.
  std::vector<tensor_entry> others;
  std::set<std::string, std::less<>> buffers, second;
  is_cut_ = files.model.back().mp > 0 || !files.layers.empty();
  for (const auto& model : files.model) {
    if (model.dp != 0) continue;
    TROUPE_ASSIGN(const auto file, open_numbered(out_.files, model.path));
    TROUPE_ASSIGN(const auto lists, read_deepspeed_lists(file));
    for (const auto& group : lists.groups)
      for (const auto& [name, shape] : group)
        if (listed_.emplace(name, shape).second) out_.parameter_order.push_back(name);
    buffers.insert(lists.buffers.begin(), lists.buffers.end());
    for (const auto& [name, owner] : lists.shared)
      if (second.insert(name).second) out_.tied.push_back({name, owner});
    TROUPE_TRY(check_steps_of_model(file, out_.run));
    if (model.mp != 0) continue;
    auto loss_scale = out_.run.loss_scale;
    out_.run = run_of_model_file(file);
    out_.run.loss_scale = loss_scale;
  }
  TROUPE_TRY(check_listed(files.model.front().path));
  give_shapes();
  std::erase_if(out_.tensors, [&](tensor_entry& t) {
    if (listed_.contains(t.name)) return false;
    others.push_back(std::move(t));
    return true;
  });
  // If the model is not cut over ranks, the first model file has all tensors that are not trained, whole and in their
  // own dtypes.
  if (!is_cut_) {
    TROUPE_ASSIGN(const auto file, open_numbered(out_.files, files.model.front().path));
    TROUPE_ASSIGN(auto part, read_deepspeed_part(files, 0, file, out_.files, out_.run, steps_,
                                                 {{std::move(out_.tensors), stage_}}));
    TROUPE_TRY(settle_steps(files.model.front().path, part.weights));
    out_.unread = std::move(part.unread);
    say_unread(out_.remarks, out_.unread);
    out_.tensors = std::move(part.tensors);
    out_.tied = std::move(part.tied);
    out_.parameter_order = std::move(part.order);
    std::set<std::string> unlisted;
    for (const auto& t : others) unlisted.insert(t.name);
    for (const auto& t : out_.tensors) unlisted.erase(t.name);
    for (const auto& t : out_.tied) unlisted.erase(t.name);
    say_unlisted(unlisted);
    return {};
  }
  TROUPE_TRY(settle_steps(files.model.front().path, {}));
  std::set<std::string> unlisted;  // names with moments: an optimizer updates them, so they are not frozen parameters
  for (const auto& t : others)
    if (t.kind == tensor_kind::moment && !second.contains(t.name)) unlisted.insert(t.name);
  say_unlisted(unlisted);
  for (auto& t : others) {
    if (second.contains(t.name) || unlisted.contains(t.name) || t.kind != tensor_kind::master) continue;
    t.kind = buffers.contains(t.name) ? tensor_kind::buffer : tensor_kind::frozen;
    if (t.kind == tensor_kind::frozen) out_.parameter_order.push_back(t.name);
    out_.tensors.push_back(std::move(t));
  }
  // A universal folder of a cut model may lack frozen parameters; tied names of missing tensors are removed.
  std::set<std::string_view> known;
  for (const auto& t : out_.tensors) known.insert(t.name);
  std::erase_if(out_.tied, [&](const auto& t) { return !known.contains(t.of); });
  return {};
}

}  // namespace

core::result<tensor_source> read_universal_source(const fs::path& folder) {
  if (!storage::is_folder(folder / "zero"))
    return refused(fmt::format("'{}' holds no folder 'zero': not a universal checkpoint", folder.string()));
  return universal_reader().run(folder);
}

constexpr source_format universal_format{
    .described = "a universal DeepSpeed checkpoint",
    .lacks = "no *_model_states.pt or folder zero (DeepSpeed)",
    .in_folder = [](const fs::path& folder) -> core::result<likeness> {
      return storage::is_folder(folder / "zero") ? likeness::certain : likeness::none;
    },
    .open = [](const fs::path& folder, const source_options&) { return read_universal_source(folder); },
    .has_module_names = true,
    .lies_below_config = true,
};

}  // namespace troupe::formats
