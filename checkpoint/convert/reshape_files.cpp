#include "checkpoint/convert/reshape_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "checkpoint/commit/names.hpp"
#include "core/json_text.hpp"
#include "core/tensor_view.hpp"
#include "formats/source/element_cast.hpp"
#include "formats/weights/torch_file.hpp"

namespace troupe::checkpoint {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// Converts JSON to a torch value; reshape() has bounded the depth.
formats::torch_value value_of(const json& j) {
  if (j.is_boolean()) return formats::torch_value(j.get<bool>());
  if (j.is_number_unsigned() && j.get<uint64_t>() > uint64_t{std::numeric_limits<int64_t>::max()})
    return formats::torch_value(j.get<double>());
  if (j.is_number_integer()) return formats::torch_value(j.get<int64_t>());
  if (j.is_number_float()) return formats::torch_value(j.get<double>());
  if (j.is_string()) return formats::torch_value(j.get<std::string>());
  auto out = j.is_array()    ? formats::torch_value::list()
             : j.is_object() ? formats::torch_value::dict()
                             : formats::torch_value();
  for (const auto& [key, inner] : j.items()) {
    if (!j.is_structured()) break;
    if (j.is_array())
      out.push(value_of(inner));
    else
      out.set(key, value_of(inner));
  }
  return out;
}

/// Returns the tensors of the module in the model's order: for each name the weight, or the master if there is none.
std::vector<const formats::tensor_entry*> module_of(const formats::tensor_source& s, bool exclude_frozen) {
  std::vector<const formats::tensor_entry*> out;
  std::set<std::string_view> placed;
  const auto place = [&](const std::string& name) {
    if (placed.contains(name)) return;
    for (const auto kind : {formats::tensor_kind::weight, formats::tensor_kind::master, formats::tensor_kind::frozen,
                            formats::tensor_kind::buffer}) {
      if (kind == formats::tensor_kind::frozen && exclude_frozen) continue;
      const auto* t = formats::find_tensor(s, name, kind);
      if (t == nullptr || t->name != name) continue;
      out.push_back(t);
      placed.insert(t->name);
      return;
    }
  };
  for (const auto& name : s.parameter_order) place(name);
  for (const auto& t : s.tensors) place(t.name);
  return out;
}

}  // namespace

core::result<void> write_zeros(const fs::path& path, uint64_t bytes) {
  std::error_code ec;
  if (std::ofstream(path, std::ios::binary)) fs::resize_file(path, bytes, ec);
  if (ec || fs::file_size(path, ec) != bytes || ec)
    return fail(error_kind::io, fmt::format("'{}' cannot be made {} bytes long", path.string(), bytes));
  return {};
}

reshape_files::reshape_files(storage::file_system& files, fs::path folder, const reshape_plan& plan)
    : files_(files), folder_(std::move(folder)), to_(plan.to()), plan_(plan) {
  for (const auto& t : plan.whole().tensors) has_optimizer_ = has_optimizer_ || t.kind == formats::tensor_kind::moment;
}

core::result<void> reshape_files::write_rank(uint32_t rank, const formats::tensor_source& source,
                                             formats::deepspeed_write_options options) {
  options.place = {rank, to_.pipeline, to_.tensor, to_.pipeline > 1};
  options.ranks = to_.data;
  options.tag = "rank";  // write_with_optimizer() moves the files out of this tag's folder
  if (to_.pipeline > 1) TROUPE_TRY(write_layers(rank, source, options));
  if (!has_optimizer_) return write_model_file(rank, source, options);
  const auto ranks = plan_.ranks();
  if (const auto all = options.progress)
    options.progress = [all, rank, ranks, this](uint64_t done, uint64_t total) {
      const double part = total == 0 ? 1.0 : static_cast<double>(done) / static_cast<double>(total);
      const double bytes = static_cast<double>(plan_.bytes()) * (rank + part) / static_cast<double>(ranks);
      return all(std::min(static_cast<uint64_t>(bytes), plan_.bytes()), plan_.bytes());
    };
  return write_with_optimizer(source, options);
}

core::result<void> reshape_files::write_with_optimizer(const formats::tensor_source& s,
                                                       const formats::deepspeed_write_options& options) {
  const fs::path own = folder_ / "parts";
  TROUPE_ASSIGN(const auto written, formats::write_deepspeed_folder(s, own, options, files_));
  TROUPE_ASSIGN(const auto entries, files_.list(written.folder));
  for (const auto& e : entries) TROUPE_TRY(files_.rename(written.folder / e.name, folder_ / e.name));
  TROUPE_TRY(remove_files_and_folder(files_, written.folder));
  TROUPE_TRY(remove_files_and_folder(files_, own));
  bytes_ += written.bytes;
  count_ += written.files;
  return {};
}

core::result<void> reshape_files::write_model_file(uint32_t rank, const formats::tensor_source& s,
                                                   const formats::deepspeed_write_options& options) {
  formats::source_reader reader(s, files_);
  formats::torch_file file(reader);
  auto module = formats::torch_value::ordered_dict(), shared = formats::torch_value::dict();
  auto buffers = formats::torch_value::list();
  std::map<std::string_view, formats::torch_value> values;
  for (const auto* t : module_of(s, options.exclude_frozen_parameters)) {
    if (t->kind == formats::tensor_kind::buffer) buffers.push(t->name);
    if (to_.pipeline > 1) continue;
    auto value = file.whole(t->type, *t);
    values.emplace(t->name, value);
    module.set(t->name, std::move(value));
  }
  for (const auto& t : s.tied) {
    shared.set(t.name, t.of);
    if (const auto at = values.find(t.of); at != values.end()) module.set(t.name, at->second);
  }
  auto& root = file.root;
  root.set("module", to_.pipeline > 1 ? formats::torch_value() : std::move(module))
      .set("buffer_names", std::move(buffers));
  for (const char* key : {"optimizer", "param_shapes", "frozen_param_shapes", "frozen_param_fragments"})
    root.set(key, formats::torch_value());
  root.set("shared_params", std::move(shared)).set("lr_scheduler", formats::torch_value());
  root.set("global_steps", static_cast<int64_t>(s.run.steps.value_or(0))).set("skipped_steps", 0);
  if (s.run.samples) root.set("global_samples", static_cast<int64_t>(*s.run.samples));
  root.set("dp_world_size", int64_t{to_.data}).set("mp_world_size", int64_t{to_.pipeline} * to_.tensor);
  auto degrees = formats::torch_value::dict();
  degrees.set("pp_degree", int64_t{to_.pipeline}).set("tp_degree", int64_t{to_.tensor});
  root.set("checkpoint_parallel_dimensions", std::move(degrees));
  root.set("ds_config", formats::torch_value::dict()).set("ds_version", options.ds_version);
  const auto client = core::parse_json(s.run.client_state);
  if (client && client->is_object())
    for (const auto& [key, inner] : client->items()) root.set(key, value_of(inner));
  const auto told = [&](uint64_t n) -> core::result<void> {
    bytes_ += n;
    if (options.progress && !options.progress(std::min(bytes_, plan_.bytes()), plan_.bytes()))
      return fail(error_kind::stopped, fmt::format("'{}' was not written: stopped", folder_.string()));
    return {};
  };
  ++count_;
  return formats::write_torch_archive(folder_ / fmt::format("mp_rank_{:02}_model_states.pt", rank), root,
                                      file.storages(), told);
}

core::result<void> reshape_files::write_layers(uint32_t rank, const formats::tensor_source& s,
                                               const formats::deepspeed_write_options& options) {
  std::map<uint32_t, std::vector<std::pair<std::string, const formats::tensor_entry*>>> layers;
  std::map<std::string, const formats::layer_place*> places;
  for (const auto& [name, place] : plan_.map().places) places.emplace(pipeline_name(plan_.map(), name), &place);
  for (const auto* t : module_of(s, options.exclude_frozen_parameters)) {
    // The ranks of the first stage, which precede all others, have written the tied modules.
    if (t->name.starts_with("tied_modules.") && rank >= to_.tensor) continue;
    const auto* place = places.at(t->name);
    layers[place->layer].emplace_back(place->key, t);
  }
  formats::source_reader reader(s, files_);
  for (const auto& [layer, tensors] : layers) {
    formats::torch_file file(reader);
    file.root = formats::torch_value::ordered_dict();
    for (const auto& [key, t] : tensors) {
      const bool in_the_engines_type =
          has_optimizer_ && t->kind != formats::tensor_kind::buffer && formats::is_floating(t->type);
      file.root.set(key, file.whole(in_the_engines_type ? options.weight_type : t->type, *t));
    }
    const auto told = [&](uint64_t n) -> core::result<void> {
      bytes_ += n;
      // If the source has an optimizer, writing its shards takes most of the time, so layer files are not counted as
      // progress: the reported bytes stay at those of the ranks that are complete.
      const uint64_t done = has_optimizer_ ? plan_.bytes() / plan_.ranks() * rank : std::min(bytes_, plan_.bytes());
      if (options.progress && !options.progress(done, plan_.bytes()))
        return fail(error_kind::stopped, fmt::format("'{}' was not written: stopped", folder_.string()));
      return {};
    };
    ++count_;
    const std::string name = fmt::format("layer_{:02}-model_{:02}-model_states.pt", layer, rank % to_.tensor);
    TROUPE_TRY(formats::write_torch_archive(folder_ / name, file.root, file.storages(), told));
  }
  return {};
}

}  // namespace troupe::checkpoint
