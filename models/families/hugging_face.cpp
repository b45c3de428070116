// Checks names and shapes of tensors once, when a folder is opened; afterwards a parameter is a range of bytes of a
// file.
#include "models/families/hugging_face.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>

#include "checkpoint/commit/open_native.hpp"
#include "checkpoint/convert/folder_contents.hpp"
#include "checkpoint/convert/no_checkpoint.hpp"
#include "core/json_text.hpp"
#include "core/text.hpp"
#include "formats/compressed/foreign.hpp"
#include "formats/compressed/scheme.hpp"
#include "formats/compressed/source.hpp"
#include "formats/names/name_map.hpp"
#include "formats/names/wrapper_names.hpp"
#include "formats/safetensors/weights_folder.hpp"
#include "formats/source/source_reader.hpp"
#include "formats/source/tensor_source.hpp"
#include "kernels/base/cast.hpp"

namespace troupe::models {
namespace {

/// Number of elements that are read or written and converted at a time.
constexpr size_t block_elements = size_t{1} << 16;

/// True for names of constant tensors (masks, frequencies) that files of older transformers releases contain besides
/// the parameters, and that are ignored.
bool is_known_buffer(std::string_view name) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") || name.ends_with(".attention.bias") ||
         name.ends_with(".attention.masked_bias") || name.ends_with(".rotary_emb.inv_freq");
}

/// True if the tensor `bare`, a name without prefix, belongs to a part for other tasks, which no layer of the family
/// reads.
bool is_left_out(const families::family& f, std::string_view bare) {
  return std::ranges::any_of(f.unread_tensors, [&](std::string_view begin) { return bare.starts_with(begin); });
}

/// Ends of the names of a layer norm's weight and bias in older files, and in newer ones; transformers renames them as
/// well.
constexpr std::array<std::array<std::string_view, 2>, 2> renamed_ends{
    {{".LayerNorm.gamma", ".LayerNorm.weight"}, {".LayerNorm.beta", ".LayerNorm.bias"}}};

/// Returns the name under which newer files have a tensor with this name.
std::string current_name(std::string_view name) {
  for (const auto& [old, now] : renamed_ends)
    if (name.ends_with(old)) return std::string(name.substr(0, name.size() - old.size())).append(now);
  return std::string(name);
}

/// Returns the name of the parameter that the tensor `bare`, a name without prefix, repeats in files of a model whose
/// head is tied and has a bias; empty if it repeats none.
std::string repeated_by(const model_spec& spec, std::string_view bare) {
  const auto& names = spec.family->names;
  if (!spec.tied || names.head_bias.empty()) return {};
  if (bare == formats::head_name) return families::embedding_weight(*spec.family);
  const bool is_bias = bare.starts_with(names.head) && bare.substr(names.head.size()) == ".bias";
  return is_bias ? std::string(names.head_bias) : std::string();
}

constexpr const char* from_scratch = "; to start from scratch, set model.path to a folder with only config.json";

struct tensor_there {  ///< a tensor found in a folder, whichever way the folder stores it
  std::string_view name;
  const std::vector<int64_t>* shape = nullptr;
  core::dtype type = core::dtype::f32;
  formats::weights_folder::tensor plain{};  ///< the tensor in a plain safetensors file; used if `of_source` is null
  const formats::tensor_entry* of_source = nullptr;
  /// Name of the stored type if it cannot be read, in which case `type` is meaningless; else empty.
  std::string unread_type{};
};

/// True if `name` is a file name that Hugging Face's libraries use for weights.
bool is_of_weights(const std::string& name) {
  return name.ends_with(".safetensors") || formats::is_index_name(name) ||
         (name.starts_with("pytorch_model") && name.ends_with(".bin"));
}

/// Returns the newest checkpoint that another program has written, at `path` or below; empty if there is none.
std::filesystem::path checkpoint_at(const std::filesystem::path& path) {
  const auto contents = checkpoint::look_into(path);
  if (!contents || contents->checkpoints.front().format == &checkpoint::troupe_format) return {};
  return contents->checkpoints.front().path;
}

/// Returns the weights at `path` as a source of tensors if they are compressed or in torch.save files; null if they are
/// plain safetensors, which are read directly.
core::result<std::unique_ptr<const formats::tensor_source>> listed(const std::filesystem::path& path,
                                                                   bool is_compressed) {
  const formats::source_format* format = &formats::hugging_face_format;
  if (!is_compressed) {
    std::error_code ignored;
    // If a folder has safetensors files, all its other files are ignored.
    if (std::filesystem::exists(path / formats::single_file_name, ignored) ||
        std::filesystem::exists(path / formats::index_file_name, ignored))
      return std::unique_ptr<const formats::tensor_source>();
    const auto found = checkpoint::recognise(path);
    if (!found) return core::fail(found.error().kind, found.error().text + from_scratch);
    if (const auto newest = checkpoint_at(path); !newest.empty() && newest != path)
      return core::fail(error_kind::bad_input,
                        core::in_quotes(path.string()) +
                            " contains checkpoints but no weights of its own: wanted one of them, such as " +
                            core::in_quotes(newest.string()) + from_scratch);
    format = *found;
    if (format == &formats::hugging_face_format) return std::unique_ptr<const formats::tensor_source>();
    if (!format->is_model_folder)
      return core::fail(error_kind::bad_input, core::in_quotes(path.string()) + ": wanted Hugging Face weights, got " +
                                                   std::string(format->described) + "; load it with --resume");
  }
  TROUPE_ASSIGN(auto opened, format->open(path, {}));
  return std::make_unique<const formats::tensor_source>(std::move(opened));
}

}  // namespace

namespace {

/// Returns an error if the parameters of `table` differ in name or shape from those of the model that config.json will
/// describe, so that the folder could not be loaded again.
core::result<void> check_parameters_of(const model_spec& spec, const core::model_table& table) {
  std::map<std::string, std::vector<int64_t>> wanted;
  for (const auto& p : make_model_table(spec, 1, 1, sizeof(float)).parameters) wanted.emplace(p.name, p.shape);
  for (const auto& p : table.parameters) {
    if (p.is_copy()) continue;
    const auto at = wanted.find(p.name);
    if (at == wanted.end())
      return core::fail(error_kind::mismatch, "parameter '" + p.name + "' is not in the model of config.json");
    if (at->second != p.shape)
      return core::fail(error_kind::mismatch, "parameter '" + p.name + "': wanted shape " +
                                                  core::shape_text(at->second) + " as in config.json, got " +
                                                  core::shape_text(p.shape));
    wanted.erase(at);
  }
  if (wanted.empty()) return {};
  return core::fail(error_kind::mismatch,
                    "parameter '" + wanted.begin()->first + "' of the model of config.json is missing");
}

}  // namespace

weights_source::weights_source() = default;
weights_source::~weights_source() = default;

bool has_weights(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) return std::filesystem::exists(path, ignored);
  for (std::filesystem::directory_iterator at(path, ignored), end; !ignored && at != end; at.increment(ignored))
    if (is_of_weights(at->path().filename().string())) return true;
  return checkpoint::unread_weights_in(path).has_value() || !checkpoint_at(path).empty();
}

core::result<weights_source::stored> weights_source::place_of(const formats::safetensors_file& file,
                                                              const formats::safetensors_entry& entry) {
  const auto known =
      std::find_if(files_.begin(), files_.end(), [&](const auto& f) { return f.name() == file.path().string(); });
  const auto number = static_cast<size_t>(known - files_.begin());
  if (known == files_.end()) {
    TROUPE_ASSIGN(auto shard, core::source_file::open(file.path()));
    files_.push_back(std::move(shard));
  }
  return stored{number, file.offset_bytes(entry), entry.end - entry.begin, entry.type};
}

core::result<std::unique_ptr<weights_source>> weights_source::open(const std::filesystem::path& path,
                                                                   const model_spec& spec,
                                                                   const core::model_table& table, bool dequantise) {
  const auto refuse = [&](const std::string& text) {
    return core::fail(error_kind::mismatch, core::in_quotes(path.string()) + ": " + text);
  };
  TROUPE_ASSIGN(const auto compression, formats::compression_of(path));
  if (!dequantise && compression.has_codes())
    return core::fail(error_kind::bad_input, formats::compressed_refusal(path));
  std::unique_ptr<weights_source> source(new weights_source);
  std::vector<tensor_there> there;
  TROUPE_ASSIGN(auto list, listed(path, compression.is_read()));
  source->source_ = std::move(list);
  if (source->source_ != nullptr) {
    const auto& all = *source->source_;
    if (const auto codes = formats::foreign_codes_of(all))
      return core::fail(formats::foreign_refusal(path.string(), *codes));
    for (const auto& t : all.unread) there.push_back({t.name, nullptr, {}, {}, nullptr, t.type});
    for (const auto& t : all.tensors) there.push_back({t.name, &t.shape, t.type, {}, &t});
    for (const auto& tied : all.tied)
      if (const auto* t = formats::find_tensor(all, tied.of, formats::tensor_kind::weight))
        there.push_back({tied.name, &t->shape, t->type, {}, t});
  } else {
    TROUPE_ASSIGN(auto opened, formats::weights_folder::open(path));
    source->folder_ = std::make_unique<formats::weights_folder>(std::move(opened));
    for (const auto& t : source->folder_->tensors())
      there.push_back({t.entry->name, &t.entry->shape, t.entry->type, t, nullptr,
                       t.entry->is_e4m3 ? "F8_E4M3" : t.entry->unread_type});
  }
  std::vector<std::string_view> names;
  for (const auto& t : there) names.push_back(t.name);
  if (const auto peft = formats::peft_finding(names))
    return core::fail(error_kind::mismatch, core::in_quotes(path.string()) + " " + *peft);
  source->parameters_.resize(table.parameters.size());
  for (const auto& p : table.parameters) source->names_.push_back(p.name);

  std::unordered_map<std::string, uint32_t> wanted;
  std::vector<bool> found(table.parameters.size(), false);
  for (uint32_t p = 0; p < table.parameters.size(); ++p) {
    // A copy of a tied parameter gets the values of the parameter that it copies, so it is not read.
    found[p] = table.parameters[p].is_copy();
    if (!found[p]) wanted.emplace(formats::bare_name(table.parameters[p].name), p);
  }
  const auto stored_at = [&](const tensor_there& t) {
    return t.of_source != nullptr ? core::result<stored>(stored{.of_source = t.of_source})
                                  : source->place_of(*t.plain.file, *t.plain.entry);
  };
  const tensor_there* head = nullptr;
  std::vector<std::pair<const tensor_there*, uint32_t>> copies;  // tensors that repeat a parameter, and the parameter
  for (const auto& tensor : there) {
    const auto& [name, shape, type, plain, of_source, unread_type] = tensor;
    const auto bare = formats::bare_name(current_name(name));
    const auto match = wanted.find(bare);
    if (match == wanted.end()) {
      if (is_known_buffer(name) || is_left_out(*spec.family, bare)) continue;
      if (const auto of = repeated_by(spec, bare); unread_type.empty() && is_float(type) && wanted.contains(of)) {
        copies.emplace_back(&tensor, wanted.at(of));
        continue;
      }
      // The tensor of a tied head repeats the embedding, or replaces it if the file has no embedding.
      if (spec.tied && formats::bare_name(name) == formats::head_name) {
        if (unread_type.empty()) head = &tensor;
        continue;
      }
      return refuse("tensor '" + formats::shown(std::string(name)) + "' is not a parameter of this model");
    }
    const auto& info = table.parameters[match->second];
    if (found[match->second]) return refuse("parameter '" + info.name + "' is given twice, with and without a prefix");
    if (!unread_type.empty())
      return refuse("parameter '" + info.name + "': wanted a floating type, got " + formats::shown(unread_type));
    if (*shape != info.shape)
      return refuse("parameter '" + info.name + "': wanted shape " + core::shape_text(info.shape) + ", got " +
                    core::shape_text(*shape));
    if (!is_float(type))
      return refuse("parameter '" + info.name + "': wanted a floating type, got " + std::string(core::name_of(type)));
    found[match->second] = true;
    TROUPE_ASSIGN(auto place, stored_at(tensor));
    source->parameters_[match->second] = place;
  }
  const auto embedding = wanted.find(families::embedding_weight(*spec.family));
  if (head != nullptr && embedding != wanted.end() && !found[embedding->second] && is_float(head->type) &&
      *head->shape == table.parameters[embedding->second].shape) {
    TROUPE_ASSIGN(auto place, stored_at(*head));
    source->parameters_[embedding->second] = place;
    found[embedding->second] = true;
  }
  for (const auto& [copy, parameter] : copies) {
    if (!found[parameter]) continue;  // reported below as missing
    TROUPE_ASSIGN(auto place, stored_at(*copy));
    const auto& info = table.parameters[parameter];
    TROUPE_ASSIGN(const bool same, *copy->shape == info.shape ? source->repeats(place, parameter, info.numel())
                                                              : core::result<bool>(false));
    if (!same)
      return refuse("tensor '" + formats::shown(std::string(copy->name)) + "': wanted the values of '" + info.name +
                    "', to which config.json ties it, got others");
  }
  const auto missing = std::find(found.begin(), found.end(), false);
  if (missing != found.end()) {
    const auto& info = table.parameters[static_cast<size_t>(missing - found.begin())];
    return refuse("parameter '" + info.name + "' of shape " + core::shape_text(info.shape) + " is missing");
  }
  return source;
}

core::result<bool> weights_source::repeats(const stored& copy, uint32_t parameter, uint64_t elements) const {
  std::vector<float> one(block_elements), other(block_elements);
  for (uint64_t done = 0; done < elements; done += block_elements) {
    const auto n = static_cast<size_t>(std::min<uint64_t>(block_elements, elements - done));
    TROUPE_TRY(read(parameters_.at(parameter), parameter, done, std::span(one).first(n)));
    TROUPE_TRY(read(copy, parameter, done, std::span(other).first(n)));
    if (!std::equal(one.begin(), one.begin() + static_cast<long>(n), other.begin())) return false;
  }
  return true;
}

core::result<void> weights_source::read(uint32_t parameter, uint64_t first, std::span<float> out) const {
  return read(parameters_.at(parameter), parameter, first, out);
}

core::result<void> weights_source::read(const stored& from, uint32_t parameter, uint64_t first,
                                        std::span<float> out) const {
  if (from.of_source != nullptr)
    return formats::source_reader(*source_).read_as(core::dtype::f32, *from.of_source, first, out.size(),
                                                    std::as_writable_bytes(out));
  const size_t size = core::size_of(from.type);
  const uint64_t count = from.bytes / size;
  if (first > count || out.size() > count - first)
    return core::fail(error_kind::bug, fmt::format("parameter {} has {} elements, wanted {} from {}", parameter, count,
                                                   out.size(), first));
  // The bytes are copied, because the conversion needs aligned memory and the file guarantees no alignment.
  std::vector<double> aligned(std::min(out.size(), block_elements));
  auto* block = reinterpret_cast<std::byte*>(aligned.data());
  for (size_t done = 0; done < out.size(); done += block_elements) {
    const size_t n = std::min(block_elements, out.size() - done);
    TROUPE_TRY(files_[from.file].read(from.begin + (first + done) * size, {block, n * size}));
    auto* const rounded = reinterpret_cast<std::byte*>(out.data() + done);
    if (const auto lost = kernels::cast(block, from.type, rounded, core::dtype::f32, n))
      return core::fail(formats::overflow_error(names_.at(parameter), {first + done + lost->element, lost->value},
                                                core::dtype::f32,
                                                "wanted weights that fp32 master weights can represent"));
  }
  return {};
}

core::result<void> write_folder(const std::filesystem::path& folder, const model_spec& spec,
                                const core::model_table& table, core::dtype type, const parameter_reader& read,
                                uint64_t max_shard_bytes) {
  if (!is_float(type))
    return core::fail(error_kind::bad_input,
                      "weights are written in a floating type, got " + std::string(core::name_of(type)));
  TROUPE_TRY(check_parameters_of(spec, table));
  std::vector<formats::tensor_to_write> tensors;
  for (uint32_t p = 0; p < table.parameters.size(); ++p) {
    const auto& info = table.parameters[p];
    if (info.is_copy()) continue;
    auto source = [&read, p, type, name = info.name](uint64_t offset_bytes,
                                                     std::span<std::byte> out) -> core::result<void> {
      const size_t size = core::size_of(type);
      std::vector<float> values(std::min(out.size() / size, block_elements));
      for (size_t done = 0; done < out.size() / size; done += values.size()) {
        const std::span<float> block(values.data(), std::min(values.size(), out.size() / size - done));
        TROUPE_TRY(read(p, offset_bytes / size + done, block));
        const auto* const wide = reinterpret_cast<const std::byte*>(block.data());
        if (const auto lost = kernels::cast(wide, core::dtype::f32, out.data() + done * size, type, block.size()))
          return core::fail(formats::overflow_error(name, {offset_bytes / size + done + lost->element, lost->value},
                                                    type, "wanted a wider type"));
      }
      return {};
    };
    tensors.push_back({info.name, type, info.shape, {}, std::move(source)});
  }
  TROUPE_TRY(formats::write_weights_folder(folder, tensors, max_shard_bytes));

  auto given = core::parse_json<nlohmann::ordered_json>(spec.hugging_face_json, max_model_keys_depth);
  auto config = given && given->is_object() ? std::move(*given) : nlohmann::ordered_json::object();
  config["model_type"] = spec.family->model_type;
  config["architectures"] = nlohmann::ordered_json::array({spec.family->architecture});
  const std::string name = type == core::dtype::f32    ? "float32"
                           : type == core::dtype::bf16 ? "bfloat16"
                           : type == core::dtype::f16  ? "float16"
                                                       : "float64";
  config.erase("torch_dtype");  // the key that transformers before 4.56 used for `dtype`
  // Removes the key that describes how the weights that the run started from were quantised, because the weights that
  // are written are not quantised.
  config.erase(std::string(formats::quantization_config_key));
  config["dtype"] = name;
  return storage::write_file_atomically(folder / "config.json",
                                        config.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

}  // namespace troupe::models
