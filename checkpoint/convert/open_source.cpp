#include "checkpoint/convert/open_source.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "checkpoint/commit/commit.hpp"
#include "checkpoint/commit/node_parts.hpp"
#include "checkpoint/commit/reading_mark.hpp"
#include "checkpoint/compressed/source.hpp"
#include "checkpoint/deepspeed/source.hpp"
#include "checkpoint/deepspeed/universal_source.hpp"
#include "checkpoint/distributed/megatron_common.hpp"
#include "checkpoint/distributed/safetensors_shards.hpp"
#include "checkpoint/distributed/source.hpp"
#include "checkpoint/gguf/source.hpp"
#include "checkpoint/safetensors/weights_folder.hpp"
#include "checkpoint/safetensors/weights_index.hpp"
#include "checkpoint/source/hugging_face.hpp"
#include "checkpoint/source/layer_names.hpp"
#include "checkpoint/source/name_rules.hpp"
#include "checkpoint/source/numbered_states.hpp"
#include "checkpoint/source/torch.hpp"
#include "checkpoint/source/trainer.hpp"
#include "checkpoint/torch/distributed_metadata.hpp"

namespace troupe::checkpoint {
namespace {

namespace fs = std::filesystem;
using core::error_kind;
using core::fail;

constexpr const char* universal_latest_name = "latest_universal";
constexpr size_t max_folder_name_bytes = 255;

using core::refused;

bool is_plain_name(std::string_view name) {
  return !name.empty() && name.size() <= max_folder_name_bytes && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\0", 2)) == std::string_view::npos;
}

bool there(const fs::path& path) {
  std::error_code ec;
  return fs::exists(path, ec);
}
bool is_folder(const fs::path& path) {
  std::error_code ec;
  return fs::is_directory(path, ec);
}

/// The first line of a small text file without the blanks around it.
core::result<std::string> first_line(const fs::path& path) {
  auto text = read_small_file(real_files(), path, max_latest_bytes);
  if (!text) return fail(text.error());
  std::string line = text->substr(0, text->find('\n'));
  constexpr std::string_view blanks = " \t\r";
  line.erase(line.find_last_not_of(blanks) + 1);
  line.erase(0, std::min(line.find_first_not_of(blanks), line.size()));
  return line;
}

/// Whether a folder has a checkpoint of ours, however damaged.
bool has_ours(const fs::path& root) {
  const auto all = real_files().list(root);
  return all && std::any_of(all->begin(), all->end(), [&](const folder_entry& e) {
           return e.kind == entry_kind::folder &&
                  (step_of(e.name.substr(0, e.name.find('.'))) || there(root / e.name / manifest_file_name));
         });
}

/// Whether `latest` is one of ours: it holds the digest of what it names.
bool latest_is_ours(const fs::path& root) {
  const auto latest = read_latest(real_files(), root);
  return latest && *latest && (*latest)->seal;
}

/// Names of files by which DeepSpeed's folders are known.
bool is_deepspeed_file(std::string_view name) {
  return name.ends_with("_model_states.pt") || name.ends_with("-model_states.pt") || name.ends_with("optim_states.pt");
}

/// What one checkpoint's own folder holds.
core::result<source_format> recognise_folder(const fs::path& path) {
  if (there(path / manifest_file_name)) return source_format::troupe;
  if (is_folder(path / "zero")) return source_format::universal;
  if (there(path / distributed_metadata_name) || there(path / accelerate_model_folder / distributed_metadata_name))
    return source_format::distributed;
  if (holds_safetensors_shards(path)) return source_format::distributed;
  std::error_code ec;
  size_t seen = 0;
  for (fs::directory_iterator at(path, ec), end; !ec && at != end && seen < max_folder_entries;
       at.increment(ec), ++seen)
    if (is_deepspeed_file(at->path().filename().string())) return source_format::deepspeed;
  if (ec) return fail(error_kind::io, fmt::format("cannot list '{}': {}", path.string(), ec.message()));
  if (there(path / single_file_name) || there(path / index_file_name)) return source_format::hugging_face;
  if (there(path / torch_file_name) || there(path / torch_index_file_name) || there(path / full_fsdp_file_name))
    return source_format::torch;
  if (find_weights_index(path, index_file_name, safetensors_index_infix)) return source_format::hugging_face;
  if (find_weights_index(path, torch_index_file_name, torch_index_infix)) return source_format::torch;
  for (const auto infix : {safetensors_index_infix, torch_index_infix})
    if (const auto all = weights_indices(path, infix); all.size() > 1)
      return refused(
          fmt::format("'{}' is no checkpoint: it has {} indices of weights: wanted one of them, such as '{}'",
                      path.string(), all.size(), all.front().string()));
  return refused(
      fmt::format("'{}' is no checkpoint: it holds neither {} nor {}, no *_model_states.pt of DeepSpeed's, no folder "
                  "zero, no {} of torch.distributed.checkpoint, no {} or {} of Hugging Face's",
                  path.string(), manifest_file_name, latest_file_name, distributed_metadata_name, single_file_name,
                  torch_file_name));
}

core::result<source_format> recognise_tag(const fs::path& root, const std::string& tag, const std::string& who) {
  if (!is_plain_name(tag)) return refused(fmt::format("{} '{}', which is no name of a folder", who, shown(tag)));
  if (!is_folder(root / tag))
    return refused(fmt::format("{} '{}', and there is no such folder in '{}'", who, shown(tag), root.string()));
  return recognise_folder(root / tag);
}

/// What the shards of an index are, by the first one's ending.
core::result<source_format> recognise_index(const fs::path& path) {
  const auto weights = read_weights_index(path);
  if (!weights) return fail(weights.error());
  return weights->front().second.ends_with(".safetensors") ? source_format::hugging_face : source_format::torch;
}

core::result<source_format> recognise_file(const fs::path& path) {
  if (is_index_name(path)) return recognise_index(path);
  const auto file = real_files().open(path);
  if (!file) return fail(file.error());
  std::array<std::byte, 10> begin{};
  const auto got = (*file)->read_at(0, begin);
  if (!got) return fail(got.error());
  const auto byte = [&](size_t i) { return i < *got ? std::to_integer<int>(begin[i]) : -1; };
  if (begins_like_gguf(std::span(begin).first(*got))) return source_format::gguf;
  if (byte(8) == '{') return source_format::hugging_face;
  if ((byte(0) == 'P' && byte(1) == 'K') || byte(0) == 0x80) return source_format::torch;
  return refused(
      fmt::format("'{}' is neither a safetensors file nor one of torch.save, nor a GGUF file", path.string()));
}

core::result<tensor_source> open_ours(const fs::path& path, const source_options& options) {
  const open_options how{.fallback_to_previous = options.fallback_to_previous && !options.tag, .say = options.say};
  const auto at = options.tag ? path / *options.tag : path;
  const auto found = open_checkpoint(real_files(), at, how);
  if (!found) {
    auto parts = open_node_parts(real_files(), at);
    if (!parts || !*parts) return fail(found.error());
    (*parts)->mark = mark_as_read((*parts)->folder);
    return std::move(**parts);
  }
  auto out = source_of(*found);
  out.mark = mark_as_read(found->folder);
  return out;
}

}  // namespace

std::string_view described(source_format f) {
  switch (f) {
    case source_format::troupe:
      return "a checkpoint of Troupe's";
    case source_format::deepspeed:
      return "a checkpoint of DeepSpeed's";
    case source_format::universal:
      return "a universal checkpoint of DeepSpeed's";
    case source_format::distributed:
      return "a folder of torch.distributed.checkpoint";
    case source_format::hugging_face:
      return "weights in safetensors files";
    case source_format::torch:
      return "weights in files of torch.save";
    case source_format::gguf:
      return "weights in a GGUF file";
  }
  return "?";
}

core::result<source_format> recognise(const fs::path& path, const std::optional<std::string>& tag) {
  if (!there(path)) return refused(fmt::format("'{}' does not exist", path.string()));
  if (!is_folder(path)) {
    if (tag) return refused(fmt::format("'{}' is a file, which has no '{}' in it", path.string(), shown(*tag)));
    return recognise_file(path);
  }
  if (tag) return recognise_tag(path, *tag, "what is wanted is");
  if (there(path / manifest_file_name)) return source_format::troupe;
  if (const auto latest = path / latest_file_name; there(latest)) {
    const auto name = first_line(latest);
    if (!name) return fail(name.error());
    // Ours may have been put aside under another name, and what is damaged may be passed over: open_checkpoint() knows.
    if ((step_of(*name) || latest_is_ours(path)) &&
        (!is_folder(path / *name) || there(path / *name / manifest_file_name)))
      return source_format::troupe;
    auto format = recognise_tag(path, *name, fmt::format("'{}' names", latest.string()));
    // A folder of ours whose manifest is gone, beside others.
    if (!format && has_ours(path)) return source_format::troupe;
    return format;
  }
  if (const auto latest = path / universal_latest_name; there(latest)) {
    const auto name = first_line(latest);
    if (!name) return fail(name.error());
    return recognise_tag(path, *name, fmt::format("'{}' names", latest.string()));
  }
  if (const auto latest = path / megatron_latest_name; there(latest)) {
    const auto folder = megatron_folder(path);
    if (!folder) return fail(folder.error());
    return recognise_tag(path, folder->filename().string(), fmt::format("'{}' names", latest.string()));
  }
  auto format = recognise_folder(path);
  if (!format && has_ours(path)) return source_format::troupe;  // one whose `latest` is gone
  if (!format)
    if (const auto newest = newest_trainer_folder(path)) return recognise_folder(*newest);
  return format;
}

namespace {

/// The checkpoint's own folder, where `path` may hold several.
core::result<fs::path> own_folder(const fs::path& path, const std::optional<std::string>& tag) {
  if (tag) return path / *tag;
  if (!is_folder(path) || there(path / latest_file_name) || there(path / universal_latest_name)) return path;
  if (there(path / megatron_latest_name)) return megatron_folder(path);
  if (!recognise_folder(path))
    if (const auto newest = newest_trainer_folder(path)) return *newest;
  return path;
}

/// With what Trainer and Accelerate keep beside the weights; where these say the order of parameters, with its names.
core::result<tensor_source> with_states(core::result<tensor_source> weights, const fs::path& at) {
  if (!weights || !is_folder(at)) return weights;
  auto out = with_trainer_states(std::move(*weights));
  // who knows the model may still find what its file's own order does not fit
  if (out && !out->parameter_order.empty()) static_cast<void>(name_states(*out, parameters_of(*out)));
  return out;
}

core::result<tensor_source> open_as_it_is(const fs::path& path, const source_options& options) {
  const auto format = recognise(path, options.tag);
  if (!format) return fail(format.error());
  const auto at = own_folder(path, options.tag);
  if (!at) return fail(at.error());
  switch (*format) {
    case source_format::troupe:
      return open_ours(path, options);
    case source_format::deepspeed:
      return read_deepspeed_source(options.tag ? path : *at, options.tag);
    case source_format::universal:
      return read_universal_source(*at);
    case source_format::distributed:
      return with_states(read_distributed_source(*at), *at);
    case source_format::hugging_face: {
      const auto is_compressed = is_compressed_folder(*at);
      if (!is_compressed) return fail(is_compressed.error());
      return with_states(*is_compressed ? read_compressed_source(*at) : read_hugging_face_source(*at), *at);
    }
    case source_format::torch:
      return with_states(read_torch_source(*at), *at);
    case source_format::gguf:
      return read_gguf_source(path);
  }
  return fail(error_kind::bug, "a format that nobody reads");
}

}  // namespace

core::result<tensor_source> open_source(const fs::path& path, const source_options& options) {
  if (options.map.lines.empty()) return open_as_it_is(path, options);
  const auto rules = name_rules::of(options.map);
  if (!rules) return fail(rules.error());
  auto source = open_as_it_is(path, options);
  if (!source) return source;
  const auto is_named = [&](const tensor_entry& t) { return rules->find(t.name).has_value(); };
  if (options.say && std::ranges::none_of(source->tensors, is_named))
    options.say(fmt::format("no rule of {} is about a tensor of '{}'", options.map.where, path.string()));
  auto named = rules->applied_to(std::move(*source));
  if (!named) return fail(named.error().in(fmt::format("by the names of {}", options.map.where)));
  return named;
}

}  // namespace troupe::checkpoint
