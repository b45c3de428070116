#include "formats/deepspeed/checkpoint_index.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "core/number.hpp"
#include "formats/deepspeed/files.hpp"
#include "formats/megatron/source.hpp"
#include "formats/torch/archive.hpp"
#include "formats/weights/torch.hpp"

namespace troupe::formats {
namespace {

namespace fs = std::filesystem;

/// Removes `prefix` and a number from the front of `name`; returns the number, or nothing if they are not there.
std::optional<uint32_t> take(std::string_view& name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return std::nullopt;
  std::string_view rest = name.substr(prefix.size());
  const auto n = core::take_number<uint32_t>(rest);
  if (n) name = rest;
  return n;
}

struct numbered {
  std::pair<uint32_t, uint32_t> number;
  fs::path path;
  bool operator<(const numbered& o) const { return std::tie(number, path) < std::tie(o.number, o.path); }
};

path_list paths_of(std::vector<numbered>& files) {
  std::ranges::sort(files, {}, [](const numbered& n) { return std::tie(n.number, n.path); });
  path_list out;
  for (auto& f : files) out.push_back(std::move(f.path));
  return out;
}

/// Returns the consecutive files of `rank` when the files are divided among `ranks`.
core::result<path_list> part_of(const path_list& files, uint32_t ranks, uint32_t rank, const std::string& of) {
  if (files.empty() || files.size() % ranks != 0)
    return fail(error_kind::bad_input,
                fmt::format("{} files of {} cannot be divided over {} tensor-parallel ranks", files.size(), of, ranks));
  const auto n = static_cast<ptrdiff_t>(files.size() / ranks);
  return path_list(files.begin() + n * rank, files.begin() + n * (rank + 1));
}

core::result<tensor_source> joined_layer(const path_list& files) {
  std::vector<tensor_source> ranks;
  for (const auto& f : files) {
    TROUPE_ASSIGN(auto one, read_torch_source(f));
    ranks.push_back(std::move(one));
  }
  TROUPE_ASSIGN(auto out, merge_ranks(std::move(ranks),
                                      [](std::string_view key) -> core::result<cut_rule> { return layer_rule(key); }));
  return std::move(out.whole);
}

core::result<merged_state> read_merged(const fs::path& path, merged_state state, bool is_first,
                                       const std::function<core::result<void>(state_value&)>& mend) {
  TROUPE_ASSIGN(const auto file, torch_archive::open(path));
  const auto number = static_cast<uint32_t>(state.files.size());
  state.files.push_back(file_of(path, file));
  TROUPE_ASSIGN(auto value, read_state(file, file.root(), number));
  if (auto ok = mend(value); !ok) return fail(ok.error().in(path.string()));
  if (is_first) {
    state.value = std::move(value);
    return state;
  }
  auto both = merge_state(std::move(state.value), std::move(value));
  if (!both) return fail(both.error().in(path.string()));
  state.value = std::move(*both);
  return state;
}

core::result<merged_state> folded(const path_list& files, const std::function<core::result<void>(state_value&)>& mend) {
  merged_state out;
  for (size_t i = 0; i < files.size(); ++i) {
    auto next = read_merged(files[i], std::move(out), i == 0, mend);
    if (!next) return next;
    out = std::move(*next);
  }
  return out;
}

}  // namespace

core::result<checkpoint_index> checkpoint_index::open(const fs::path& folder, const index_options& options) {
  checkpoint_index out;
  out.folder_ = folder;
  out.final_norm_layer_ = options.final_norm_layer;
  TROUPE_TRY(out.list_files());
  if (auto ok = out.read_model_files(); !ok) return fail(ok.error().in(folder.string()));
  const auto one = std::ranges::find(out.layer_keys_, "layer_01");
  const uint64_t files =
      one == out.layer_keys_.end() ? 0 : out.files_of_layer_[static_cast<size_t>(one - out.layer_keys_.begin())].size();
  if (auto ok = out.take_degrees(options, files, out.said_); !ok) return fail(ok.error().in(folder.string()));
  return out;
}

core::result<void> checkpoint_index::list_files() {
  std::error_code ec;
  std::vector<numbered> layers, models, shards, first_shards[3];
  static constexpr std::string_view zero_prefixes[] = {"zero_pp_rank_", "fp16_zero_pp_rank_", "bf16_zero_pp_rank_"};
  size_t seen = 0;
  for (fs::recursive_directory_iterator at(folder_, ec), end; !ec && at != end; at.increment(ec)) {
    if (!at->is_regular_file(ec)) continue;
    if (++seen > max_deepspeed_files)
      return fail(error_kind::limit, fmt::format("'{}' has more than {} files", folder_.string(), max_deepspeed_files));
    const std::string name = at->path().filename().string();
    std::string_view rest = name;
    if (const auto layer = take(rest, "layer_"); layer && rest.starts_with("-model_")) {
      const uint32_t rank = take(rest, "-model_").value_or(0);
      layers.push_back({{*layer, rank}, at->path()});
    } else if (rest = name; const auto rank = take(rest, "mp_rank_")) {
      models.push_back({{*rank, 0}, at->path()});
    }
    for (size_t p = 0; p < 3; ++p) {
      rest = name;
      const auto data = take(rest, zero_prefixes[p]);
      const auto model = data ? take(rest, "_mp_rank_") : std::nullopt;
      if (!model) continue;
      if (rest.ends_with("optim_states.pt")) first_shards[p].push_back({{*data, *model}, at->path()});
      if (rest == "_model_states.pt" && *data == 0) shards.push_back({{*model, 0}, at->path()});
    }
  }
  if (ec) return fail(error_kind::io, fmt::format("'{}': {}", folder_.string(), ec.message()));
  // At ZeRO stage 3 the model files are named after data-parallel ranks; `shards` has those of data-parallel rank 0.
  model_files_ = paths_of(models.empty() ? shards : models);
  for (auto& list : first_shards)
    if (zero_files_.empty()) zero_files_ = paths_of(list);
  std::optional<uint32_t> last;
  std::ranges::sort(layers, {}, [](const numbered& n) { return std::tie(n.number, n.path); });
  for (auto& f : layers) {
    if (last != f.number.first) {
      layer_keys_.push_back(fmt::format("layer_{:02}", f.number.first));
      files_of_layer_.emplace_back();
      last = f.number.first;
    }
    files_of_layer_.back().push_back(f.path);
    layer_files_.push_back(std::move(f.path));
  }
  if (model_files_.empty())
    return fail(
        error_kind::bad_input,
        fmt::format("'{}' holds no file mp_rank_XX_model_states.pt: it is not a checkpoint of Megatron or DeepSpeed",
                    folder_.string()));
  return {};
}

core::result<void> checkpoint_index::read_model_files() {
  global_.is = state_value::form::dict;
  for (size_t i = 0; i < model_files_.size(); ++i) {
    TROUPE_ASSIGN(const auto file, torch_archive::open(model_files_[i]));
    const auto& t = file.tree();
    std::optional<parallel_degrees> here;
    if (const auto said = t.find(file.root(), "checkpoint_parallel_dimensions")) {
      const auto degree = [&](const char* key) -> core::result<uint32_t> {
        const auto v = t.find(*said, key);
        const auto n = v ? file.integer(*v) : core::result<int64_t>(fail(error_kind::bad_input, "missing"));
        if (!n || *n < 1 || *n > static_cast<int64_t>(max_parallel_ranks))
          return fail(error_kind::bad_input,
                      fmt::format("'{}': checkpoint_parallel_dimensions: wanted a whole number from 1 on for '{}'",
                                  model_files_[i].string(), key));
        return static_cast<uint32_t>(*n);
      };
      TROUPE_ASSIGN(const auto pp, degree("pp_degree"));
      TROUPE_ASSIGN(const auto tp, degree("tp_degree"));
      here = parallel_degrees{pp, tp, 1};
    }
    if (i > 0 && here.has_value() != said_.has_value())
      return fail(error_kind::mismatch,
                  fmt::format("'{}' {} checkpoint_parallel_dimensions, files before it {}", model_files_[i].string(),
                              here ? "has" : "lacks", here ? "lack it" : "have it"));
    if (i > 0 && here != said_)
      return fail(error_kind::mismatch,
                  fmt::format("'{}' states pipeline degree {} and tensor degree {}, files before it state {} and {}",
                              model_files_[i].string(), here->pipeline, here->tensor, said_->pipeline, said_->tensor));
    said_ = here;
    if (i > 0) continue;
    if (const auto v = t.find(file.root(), "iteration"))
      if (const auto n = file.integer(*v)) iteration_ = *n;
    for (const char* key : {"args", "checkpoint_info", "universal_checkpoint_info"})
      if (const auto v = t.find(file.root(), key)) {
        TROUPE_ASSIGN(auto value, read_state(file, *v, 0));
        global_.keys.emplace_back(std::string(key));
        global_.items.push_back(std::move(value));
      }
  }
  return {};
}

core::result<void> checkpoint_index::take_degrees(const index_options& options, uint64_t first_layers_files,
                                                  const std::optional<parallel_degrees>& said) {
  const uint64_t models = model_files_.size(), shards = zero_files_.size();
  if (said) {
    written_ = *said;
    if (uint64_t{said->pipeline} * said->tensor != models)
      return fail(error_kind::mismatch,
                  fmt::format("pipeline degree {} and tensor degree {} require {} model files, got {}", said->pipeline,
                              said->tensor, uint64_t{said->pipeline} * said->tensor, models));
  } else {
    const uint64_t tensor = first_layers_files > 0 ? first_layers_files : models;
    if (models % tensor != 0)
      return fail(
          error_kind::mismatch,
          fmt::format("the number of model files, {}, is not a multiple of the files of layer_01, {}", models, tensor));
    written_ = {static_cast<uint32_t>(models / tensor), static_cast<uint32_t>(tensor), 1};
  }
  if (shards % models != 0)
    return fail(error_kind::mismatch,
                fmt::format("{} optimizer files cannot be divided over {} model files", shards, models));
  written_.data = static_cast<uint32_t>(std::max<uint64_t>(1, shards / models));
  wanted_ = {options.pipeline.value_or(written_.pipeline), options.tensor.value_or(written_.tensor),
             options.data.value_or(written_.data)};
  TROUPE_ASSIGN(auto two, reshape_2d(written_, wanted_));
  TROUPE_ASSIGN(auto three, reshape_3d(written_, wanted_));
  cells_2d_ = std::move(two);
  cells_3d_ = std::move(three);
  return {};
}

core::result<void> checkpoint_index::check_rank(uint32_t pipeline, uint32_t tensor, uint32_t data) const {
  if (pipeline < wanted_.pipeline && tensor < wanted_.tensor && data < wanted_.data) return {};
  return fail(error_kind::bad_input,
              fmt::format("no rank ({}, {}, {}) of degrees {}, {} and {} (pipeline, tensor, data)", pipeline, tensor,
                          data, wanted_.pipeline, wanted_.tensor, wanted_.data));
}

core::result<path_list> checkpoint_index::zero_files_of(uint32_t pipeline, uint32_t tensor, uint32_t data) const {
  TROUPE_TRY(check_rank(pipeline, tensor, data));
  path_list out;
  if (zero_files_.empty()) return out;
  for (const uint32_t i : cells_3d_[file_number(wanted_, pipeline, tensor, data)]) out.push_back(zero_files_[i]);
  return out;
}

core::result<path_list> checkpoint_index::model_files_of(uint32_t pipeline, uint32_t tensor) const {
  TROUPE_TRY(check_rank(pipeline, tensor, 0));
  path_list out;
  for (const uint32_t i : cells_2d_[file_number(wanted_, pipeline, tensor, 0)]) out.push_back(model_files_[i]);
  return out;
}

core::result<path_list> checkpoint_index::layer_files_of(size_t layer, uint32_t tensor) const {
  TROUPE_TRY(check_rank(0, tensor, 0));
  if (layer >= layer_keys_.size())
    return fail(error_kind::bad_input,
                fmt::format("'{}' has {} layers, wanted number {}", folder_.string(), layer_keys_.size(), layer));
  return part_of(files_of_layer_[layer], wanted_.tensor, tensor, layer_keys_[layer]);
}

core::result<size_t> checkpoint_index::final_norm() const {
  const auto layers = static_cast<int64_t>(layer_keys_.size());
  const int64_t at = final_norm_layer_ < 0 ? layers + final_norm_layer_ : final_norm_layer_;
  if (at < 1 || at >= layers)
    return fail(error_kind::bad_input, fmt::format("'{}' has {} layers, so the final norm cannot be layer {}",
                                                   folder_.string(), layers, final_norm_layer_));
  return static_cast<size_t>(at);
}

core::result<path_list> checkpoint_index::embedding_files(uint32_t tensor) const { return layer_files_of(0, tensor); }

core::result<path_list> checkpoint_index::final_norm_files(uint32_t tensor) const {
  TROUPE_ASSIGN(const auto at, final_norm());
  return layer_files_of(at, tensor);
}

core::result<std::vector<std::string>> checkpoint_index::transformer_layers(uint32_t pipeline) const {
  TROUPE_TRY(check_rank(pipeline, 0, 0));
  TROUPE_ASSIGN(const auto last, final_norm());
  const size_t count = last - 1;
  if (count % wanted_.pipeline != 0)
    return fail(error_kind::bad_input, fmt::format("'{}': {} transformer layers cannot be divided over {} stages",
                                                   folder_.string(), count, wanted_.pipeline));
  const auto each = static_cast<ptrdiff_t>(count / wanted_.pipeline);
  const auto first = layer_keys_.begin() + 1 + each * pipeline;
  return std::vector<std::string>(first, first + each);
}

core::result<std::vector<path_list>> checkpoint_index::transformer_files(uint32_t pipeline, uint32_t tensor) const {
  TROUPE_ASSIGN(const auto layers, transformer_layers(pipeline));
  std::vector<path_list> out;
  for (size_t i = 0; i < layers.size(); ++i) {
    TROUPE_ASSIGN(auto files, layer_files_of(1 + layers.size() * pipeline + i, tensor));
    out.push_back(std::move(files));
  }
  return out;
}

core::result<tensor_source> checkpoint_index::embedding_state(uint32_t tensor) const {
  TROUPE_ASSIGN(const auto files, embedding_files(tensor));
  return joined_layer(files);
}

core::result<tensor_source> checkpoint_index::final_norm_state(uint32_t tensor) const {
  TROUPE_ASSIGN(const auto files, final_norm_files(tensor));
  return joined_layer({files.front()});
}

core::result<std::vector<tensor_source>> checkpoint_index::transformer_state(uint32_t pipeline, uint32_t tensor) const {
  TROUPE_ASSIGN(const auto files, transformer_files(pipeline, tensor));
  std::vector<tensor_source> out;
  for (const auto& layer : files) {
    TROUPE_ASSIGN(auto one, joined_layer(layer));
    out.push_back(std::move(one));
  }
  return out;
}

core::result<merged_state> checkpoint_index::model_state(uint32_t pipeline, uint32_t tensor) const {
  TROUPE_ASSIGN(const auto files, model_files_of(pipeline, tensor));
  return folded(files, [](state_value&) -> core::result<void> { return {}; });
}

core::result<merged_state> checkpoint_index::state_for_rank(uint32_t pipeline, uint32_t tensor, uint32_t data,
                                                            std::span<const std::string> ignored, bool strip) const {
  TROUPE_ASSIGN(const auto files, zero_files_of(pipeline, tensor, data));
  auto out = folded(files, [&](state_value& shard) -> core::result<void> {
    for (const auto& key : ignored) shard.erase(key);
    return strip ? strip_paddings(shard) : core::result<void>();
  });
  if (!out) return out;
  set_partitions(out->value, wanted_.data);
  return out;
}

}  // namespace troupe::formats
