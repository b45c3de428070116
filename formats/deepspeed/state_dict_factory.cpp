#include "formats/deepspeed/state_dict_factory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "core/allocation.hpp"
#include "core/json_text.hpp"
#include "core/tensor_view.hpp"
#include "core/text.hpp"
#include "formats/deepspeed/lists.hpp"
#include "formats/megatron/source.hpp"
#include "formats/source/source_reader.hpp"
#include "formats/torch/pieces.hpp"

namespace troupe::formats {
namespace {

namespace fs = std::filesystem;

struct opened_module {
  tensor_source source;
  std::optional<double> version;  ///< `checkpoint_version` in the file
};

/// Returns the key of the module, one for which `has` is true; error texts begin with `where`.
core::result<std::string> key_of_module(const std::string& wanted, const std::function<bool(const char*)>& has,
                                        const std::string& where) {
  const auto bad = [&](const std::string& what) {
    return fail(error_kind::bad_input, fmt::format("{}: {}", where, what));
  };
  if (wanted != "auto") {
    if (!has(wanted.c_str())) return bad(fmt::format("there is no key '{}'", wanted));
    return wanted;
  }
  const bool module = has("module"), model = has("model");
  if (module == model)
    return bad(fmt::format("wanted one of the keys 'module' and 'model', got {}", module ? "both" : "none"));
  return std::string(module ? "module" : "model");
}

core::result<pickle_ref> module_in(const torch_archive& file, const std::optional<std::string>& key) {
  if (!key) return file.root();
  const auto has = [&](const char* name) { return file.tree().find(file.root(), name).has_value(); };
  TROUPE_ASSIGN(const auto found, key_of_module(*key, has, fmt::format("'{}'", file.name())));
  return *file.tree().find(file.root(), found);
}

core::result<std::string> key_in(const state_value& state, const std::string& wanted) {
  if (state.is != state_value::form::dict) return fail(error_kind::bad_input, "a state dict was wanted, got no dict");
  return key_of_module(
      wanted, [&](const char* name) { return state.find(std::string(name)) != nullptr; }, "the state dict");
}

core::result<opened_module> open_module(const fs::path& path, const std::optional<std::string>& key, size_t files) {
  TROUPE_ASSIGN(const auto file, torch_archive::open(path));
  const auto& tree = file.tree();
  if (const auto said = tree.find(file.root(), "mp_world_size")) {
    const auto n = file.integer(*said);
    if (n && *n != static_cast<int64_t>(files))
      return fail(error_kind::mismatch,
                  fmt::format("'{}' was saved by {} ranks, the list has {} files", path.string(), *n, files));
  }
  opened_module out;
  if (const auto said = tree.find(file.root(), "checkpoint_version")) {
    if (tree.kind(*said) == pickle_kind::real)
      out.version = tree.real(*said);
    else if (const auto n = file.integer(*said))
      out.version = static_cast<double>(*n);
  }
  TROUPE_ASSIGN(const auto module, module_in(file, key));
  const auto tensors = tensors_of(file, module);
  if (!tensors) return fail(tensors.error().in(path.string()));
  if (tensors->empty()) return fail(error_kind::bad_input, fmt::format("'{}' holds no tensors", path.string()));
  out.source.format = "Megatron";
  out.source.folder = path;
  out.source.files.push_back(file_of(path, file));
  for (const auto& [name, t] : *tensors) {
    tensor_entry e{name, tensor_kind::weight, "", t.type, t.shape, {}};
    if (auto ok = add_pieces(e.pieces, 0, t); !ok) return fail(ok.error().in(path.string()));
    out.source.parameter_order.push_back(name);
    out.source.tensors.push_back(std::move(e));
  }
  TROUPE_TRY(complete(out.source));
  return out;
}

/// Checks that the source has the tensors of a Megatron model; without them queries, keys and values could not be
/// joined.
core::result<void> check_is_megatron(const tensor_source& s) {
  for (const char* fragment : {"attention.dense.weight", "mlp.dense_4h_to_h.weight", "attention.query_key_value",
                               "mlp.dense_h_to_4h.weight", "mlp.dense_h_to_4h.bias"})
    if (std::ranges::none_of(s.tensors, [&](const auto& t) { return t.name.find(fragment) != std::string::npos; }))
      return fail(error_kind::bad_input,
                  fmt::format("'{}' has no '{}': it is not a Megatron module", shown_place(s), fragment));
  return {};
}

/// Collects the four matrices of each layer as integers, and their scales.
class quantiser {
 public:
  quantiser(const quantise_options& options, uint32_t ranks) : options_(options), ranks_(ranks) {}

  /// Quantises one weight from its `parts`, which `rule` joins.
  core::result<void> add(const std::string& name, layer_matrix which, const cut_rule& rule,
                         std::span<const std::pair<const tensor_source*, const tensor_entry*>> parts) {
    std::vector<quantised_values> of;
    std::vector<std::vector<int64_t>> shapes;
    for (const auto& [source, t] : parts) {
      if (t->shape.size() != 2)
        return fail(error_kind::bad_input, fmt::format("'{}' is not a matrix and cannot be quantised", name));
      std::vector<float> values(core::numel_of(t->shape));
      source_reader reader(*source);
      TROUPE_TRY(reader.read_as(core::dtype::f32, *t, 0, values.size(), std::as_writable_bytes(std::span(values))));
      const bool twice = options_.mlp_extra_grouping &&
                         looks_like_mlp(t->shape[0], t->shape[1], ranks_, static_cast<uint32_t>(parts.size()));
      auto q = quantise(values, options_.bits, twice ? 2 * options_.groups : options_.groups);
      if (!q) return fail(q.error().in(name));
      of.push_back(std::move(*q));
      shapes.push_back(t->shape);
    }
    TROUPE_ASSIGN(const auto cut, cut_to_merge(name, rule, shapes));
    quantised_weight whole{cut.whole, std::vector<int8_t>(core::numel_of(cut.whole))};
    for (const auto& r : cut.runs)
      std::copy_n(of[r.rank].values.begin() + static_cast<ptrdiff_t>(r.slice_first), r.count,
                  whole.values.begin() + static_cast<ptrdiff_t>(r.whole_first));
    std::vector<float> scales;
    // The scales are in the order of the joined matrix. Joined columns: each row has parts from all files, so the
    // scales of group 0 of every file come first, then those of group 1. Joined rows: file after file.
    for (size_t g = 0; rule.dimension == 1 && g < of[0].scales.size(); ++g)
      for (const auto& q : of) scales.push_back(q.scales[g]);
    for (size_t f = 0; rule.dimension == 0 && f < of.size(); ++f)
      scales.insert(scales.end(), of[f].scales.begin(), of[f].scales.end());
    scales_[static_cast<size_t>(which)].push_back(std::move(scales));
    weights.emplace(name, std::move(whole));
    return {};
  }

  [[nodiscard]] scale_table scales() const { return scale_table_of(scales_); }
  std::map<std::string, quantised_weight> weights;

 private:
  quantise_options options_;
  uint32_t ranks_;
  std::vector<std::vector<float>> scales_[4];
};

core::result<void> quantise_all(loaded_module& out, const module_load_options& options,
                                std::span<const tensor_source> parts) {
  quantiser q(options.quantise, options.mp_world_size);
  for (const auto& name : parts[0].parameter_order) {  // in the file's order of tensors, so that scales ascend by layer
    const auto which = layer_matrix_of(name);
    if (!which) continue;
    std::vector<std::pair<const tensor_source*, const tensor_entry*>> of;
    for (const auto& p : parts) of.emplace_back(&p, find_tensor(p, name, tensor_kind::weight));
    // Skips a weight that the file of some rank lacks; merge_ranks() returns an error for such a weight.
    if (std::ranges::any_of(of, [](const auto& p) { return p.second == nullptr; })) continue;
    TROUPE_TRY(q.add(name, *which, megatron_rule(name, qkv_version::v2), of));
  }
  std::erase_if(out.module.tensors, [&](const tensor_entry& t) { return q.weights.contains(t.name); });
  out.scales = q.scales();
  out.quantised = std::move(q.weights);
  return {};
}

}  // namespace

core::result<state_value> get_module(const state_value& state, const std::optional<std::string>& module_key) {
  if (!module_key) return state;
  TROUPE_ASSIGN(const auto key, key_in(state, *module_key));
  return *state.find(key);
}

core::result<state_value> set_module(state_value state, state_value module,
                                     const std::optional<std::string>& module_key) {
  if (!module_key) return module;
  TROUPE_ASSIGN(const auto key, key_in(state, *module_key));
  *state.find(key) = std::move(module);
  return state;
}

core::result<loaded_module> load_module(std::span<const fs::path> files, const module_load_options& o) {
  if (files.empty()) return fail(error_kind::bad_input, "the list of files is empty");
  if (o.mp_world_size == 0 || o.mp_world_size > max_tensor_ranks || files.size() > max_tensor_ranks ||
      o.mp_rank >= o.mp_world_size)
    return fail(error_kind::bad_input,
                fmt::format("wanted a rank of 1 to {} ranks and as many files, got rank {} of {} "
                            "and {} files",
                            max_tensor_ranks, o.mp_rank, o.mp_world_size, files.size()));
  const auto count = static_cast<uint32_t>(files.size());
  const bool joins = count >= o.mp_world_size;
  if (joins ? count % o.mp_world_size != 0 : o.mp_world_size % count != 0)
    return fail(
        error_kind::bad_input,
        fmt::format("{} files and {} ranks do not divide one another: mp_world_size must be a multiple or a divisor of "
                    "the number of files",
                    count, o.mp_world_size));
  loaded_module out;
  out.merge_count = joins ? count / o.mp_world_size : 1;
  const uint32_t parts = joins ? 1 : o.mp_world_size / count;
  const uint32_t first = joins ? o.mp_rank * out.merge_count : o.mp_rank / parts;
  out.path = files[first];
  std::vector<tensor_source> sources;
  std::optional<double> version;
  for (uint32_t f = first; f < first + out.merge_count; ++f) {
    TROUPE_ASSIGN(auto one, open_module(files[f], o.module_key, files.size()));
    if (f == first) version = one.version;
    sources.push_back(std::move(one.source));
  }
  const auto chosen = qkv_version_from(o.version.value_or(version.value_or(0)));
  if (!chosen) return fail(chosen.error().in(out.path.string()));
  out.version = *chosen;
  if (parts > 1) {
    TROUPE_ASSIGN(auto cut, split_ranks(sources[0], parts, megatron_rules_of(out.version)));
    sources = {std::move(cut.ranks[o.mp_rank % parts])};
  }
  if (out.merge_count > 1) TROUPE_TRY(check_is_megatron(sources[0]));
  if (out.merge_count == 1) {
    out.module = sources[0];
  } else {
    // Quantised weights are stored file by file, whatever their version says. Version 2 joins all other query_key_value
    // tensors (biases) in this way, too.
    TROUPE_ASSIGN(auto whole, merge_ranks(sources, megatron_rules_of(o.quantised ? qkv_version::v2 : out.version)));
    out.module = std::move(whole.whole);
  }
  if (o.quantised)
    TROUPE_TRY(core::with_memory("the quantised weights", [&] { return quantise_all(out, o, sources); }));
  return out;
}

namespace {

using nlohmann::json;

/// Reads values by key from the dictionary that lists checkpoint files, for SDLoaderFactory.
struct list_reader {
  const json& root;
  const std::string& where;

  [[nodiscard]] tl::unexpected<core::error> bad(const std::string& what) const {
    return fail(error_kind::bad_input, fmt::format("{}: {}", where, what));
  }
  core::result<std::vector<fs::path>> paths(const json& list, const fs::path& below, const char* key) const {
    std::vector<fs::path> out;
    if (!list.is_array()) return bad(fmt::format("wanted a list of files for '{}'", key));
    for (const auto& p : list) {
      if (!p.is_string() || p.get_ref<const std::string&>().empty())
        return bad(fmt::format("wanted names of files in '{}'", key));
      out.push_back(below / p.get_ref<const std::string&>());
    }
    return out;
  }
  core::result<uint32_t> count(const char* key) const {
    const auto at = root.find(key);
    if (at == root.end() || at->is_null()) return 0;
    if (!at->is_number_unsigned() || at->get<uint64_t>() > max_tensor_ranks)
      return bad(fmt::format("wanted a number of ranks up to {} for '{}'", max_tensor_ranks, key));
    return at->get<uint32_t>();
  }
  core::result<std::string> text(const char* key, std::string otherwise) const {
    const auto at = root.find(key);
    if (at == root.end() || at->is_null()) return otherwise;
    if (!at->is_string()) return bad(fmt::format("wanted a text for '{}'", key));
    return at->get<std::string>();
  }
};

}  // namespace

core::result<checkpoint_list> parse_checkpoint_list(std::string_view text, const fs::path& folder,
                                                    const std::string& where) {
  const auto parsed = core::parse_json(text);
  if (!parsed) return fail(parsed.error().kind, fmt::format("{}: wanted a JSON object: {}", where, parsed.error().why));
  const auto& root = *parsed;
  const list_reader in{root, where};
  if (!root.is_object()) return in.bad("wanted a JSON object");
  checkpoint_list out;
  TROUPE_ASSIGN(const auto type, in.text("type", ""));
  if (core::lowered(type) == "bloom")
    out.type = checkpoint_list::kind::bloom;
  else if (core::lowered(type) == "ds_model")
    out.type = checkpoint_list::kind::ds_model;
  else if (type != "Megatron")
    return in.bad(fmt::format("wanted type 'Megatron', 'bloom' or 'ds_model', got '{}'", type));
  const auto base = in.text("base_dir", ""), parallel = in.text("parallelization", "pp"), dtype = in.text("dtype", "");
  if (!base || !parallel || !dtype) return fail((!base ? base : !parallel ? parallel : dtype).error());
  if (*parallel != "pp" && *parallel != "tp")
    return in.bad(fmt::format("wanted 'pp' or 'tp' for 'parallelization', got '{}'", *parallel));
  out.parallelization = *parallel;
  out.dtype = *dtype;
  out.base_dir = *base;
  const auto mp = in.count("mp_size"), tp = in.count("tp_size");
  if (!mp || !tp) return fail((!mp ? mp : tp).error());
  out.mp_size = *mp;
  out.tp_size = *tp;
  const auto version = root.find("version");
  if (version != root.end() && version->is_number())
    out.version = version->get<double>();
  else if (version != root.end() && !version->is_null())
    return in.bad("wanted a number for 'version'");
  const auto files = root.find("checkpoints");
  if (files == root.end()) return in.bad("the key 'checkpoints' is missing");
  const fs::path below = out.base_dir.empty() ? folder : folder / out.base_dir;
  const auto take = [&](const json& list, const char* key, std::vector<fs::path>& into) -> core::result<void> {
    TROUPE_ASSIGN(auto paths, in.paths(list, below, key));
    into = std::move(paths);
    return {};
  };
  if (!files->is_object()) {
    TROUPE_TRY(take(*files, "checkpoints", out.checkpoints));
    if (out.checkpoints.empty()) return in.bad("'checkpoints' is empty");
    return out;
  }
  if (out.type == checkpoint_list::kind::megatron)
    return in.bad("'checkpoints' must be one list of files for the type 'Megatron'");
  for (const auto& [key, into] : {std::pair{"non_tp", &out.non_tp}, std::pair{"tp", &out.tp}})
    if (const auto at = files->find(key); at != files->end()) TROUPE_TRY(take(*at, key, *into));
  if (out.non_tp.empty() && out.tp.empty()) return in.bad("'checkpoints' has neither 'non_tp' nor 'tp'");
  return out;
}

core::result<checkpoint_list> read_checkpoint_list(const fs::path& json_file) {
  std::error_code ec;
  const auto bytes = fs::file_size(json_file, ec);
  if (ec) return fail(error_kind::io, fmt::format("'{}': {}", json_file.string(), ec.message()));
  if (bytes > max_checkpoint_list_bytes)
    return fail(error_kind::limit, fmt::format("'{}' has {} bytes, a list has at most {}", json_file.string(), bytes,
                                               max_checkpoint_list_bytes));
  std::ifstream in(json_file, std::ios::binary);
  std::string text(bytes, '\0');
  if (!in.read(text.data(), static_cast<std::streamsize>(bytes)))
    return fail(error_kind::io, fmt::format("'{}' cannot be read", json_file.string()));
  return parse_checkpoint_list(text, json_file.parent_path(), fmt::format("'{}'", json_file.string()));
}

}  // namespace troupe::formats
