#include "apps/checkpoint/checkpoint_convert.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <vector>

#include "apps/base/idle_options.hpp"
#include "apps/checkpoint/companions.hpp"
#include "apps/checkpoint/conversion.hpp"
#include "apps/checkpoint/described_checkpoint.hpp"
#include "apps/checkpoint/output_mark.hpp"
#include "checkpoint/convert/weights_export.hpp"
#include "core/tensor_view.hpp"
#include "core/text.hpp"
#include "formats/names/name_map.hpp"
#include "formats/names/wrapper_names.hpp"
#include "formats/report/inspect.hpp"
#include "storage/files/atomic_file.hpp"

namespace troupe::apps {
namespace {

namespace fs = std::filesystem;
using core::human_bytes;

void say_written(const conversion& writing, const checkpoint::weights_export_report& r) {
  writing.say(fmt::format("{} tensor{}, {} in {} file{}", r.tensors, r.tensors == 1 ? "" : "s",
                          human_bytes(r.tensor_bytes), r.files.size(), r.files.size() == 1 ? "" : "s"),
              r.tensor_bytes);
}

uint64_t needed_bytes(const std::vector<checkpoint::exported_weight>& weights,
                      const checkpoint::weights_export_options& o) {
  uint64_t out = header_reserve_bytes;
  for (const auto& w : weights)
    if (!w.is_tied || !checkpoint::keeps_bytes_once(o)) out += core::numel_of(w.from->shape) * core::size_of(w.type);
  return out;
}

/// Returns the kind that OUT's name implies: one file for a known ending, else a folder. Refuses an ending that looks
/// like a file of an unknown type, unless the folder exists or its name ends with a slash.
core::result<output_kind> kind_of(const fs::path& out) {
  if (checkpoint::names_weights_file(out)) return output_kind::file;
  const auto ending = out.extension().string();
  const bool like_a_file =
      ending.size() > 1 && std::isalpha(static_cast<unsigned char>(ending[1])) != 0 &&
      std::all_of(ending.begin() + 1, ending.end(), [](unsigned char c) { return std::isalnum(c) != 0; });
  std::error_code e;
  if (!like_a_file || fs::is_directory(out, e)) return output_kind::folder;
  return fail(
      error_kind::bad_input,
      fmt::format("'{}': wanted NAME.safetensors, NAME.pt, NAME.pth, NAME.bin or the name of a folder ('{}/' for "
                  "one of this name), got the ending {}",
                  out.string(), out.string(), ending));
}

/// Adds the head's tensor under its own name if the model ties the head to the embedding, because DeepSpeed's converter
/// writes both names into state dicts. Does nothing if `out` is a folder or file of safetensors, which contain a tensor
/// under one name only.
core::result<formats::tensor_source> with_tied_head(formats::tensor_source s, const model_description& model,
                                                    const fs::path& out) {
  if (!out.empty() && !checkpoint::keeps_bytes_once({.out = out})) return s;
  const formats::name_map names(s);
  for (const auto& [alias, owner] : shared_names(model, s))
    if (const auto found = names.find(owner); found && !names.find(alias)) s.tied.push_back({alias, *found});
  TROUPE_TRY(formats::complete(s));
  return s;
}

}  // namespace

core::result<formats::tensor_source> open_for_fp32(const weights_arguments& a) {
  source_arguments from = a.source;
  from.wants_weights = true;
  auto s = open_checkpoint_at(from);
  if (!s) return s;
  warn_of_left_out(a.source, *s);
  if (const auto found = formats::peft_finding(*s))
    note(a.source, fmt::format("warning: '{}' {}: it is written under these names", formats::shown_place(*s), *found));
  TROUPE_ASSIGN(const auto model, describe_model(*s, a.model_config, a.source.ignored_keys));
  const bool is_compared = !a.model_config.empty() && !formats::peft_finding(*s);
  if (!s->has_layer_names) {
    if (is_compared) TROUPE_TRY(check_given_description(a.source, *s, model));
    return with_tied_head(std::move(*s), model, a.output.out);
  }
  s = formats::named_by_layers(std::move(*s), parameters_of(model));
  if (s && s->has_layer_names)
    note(a.source, "the tensors keep the names of the pipeline's layers; give others by --model-config or --map");
  else if (s && is_compared)
    TROUPE_TRY(check_given_description(a.source, *s, model));
  return s;
}

namespace {

core::result<void> write_fp32(const weights_arguments& a) {
  const auto shard_bytes = checkpoint::shard_bytes_from(a.max_shard_size);
  if (!shard_bytes) return fail(shard_bytes.error().in("--max-shard-size"));
  TROUPE_ASSIGN(const auto kind, kind_of(a.output.out));
  const bool is_folder = kind == output_kind::folder;
  TROUPE_TRY(refuse_idle(a.given, {{is_folder, "a folder, and OUT is one file", {"--max-shard-size"}}}));
  TROUPE_ASSIGN(const auto s, open_for_fp32(a));
  conversion writing(a.source, a.output);
  checkpoint::weights_export_options options{.out = a.output.out,
                                             .is_folder = is_folder,
                                             .max_shard_bytes = *shard_bytes,
                                             .exclude_frozen = a.exclude_frozen,
                                             .about = file_mark(),
                                             .progress = writing.progress()};
  TROUPE_ASSIGN(const auto weights, checkpoint::weights_of(s, options));
  TROUPE_TRY(writing.prepare(s, kind, needed_bytes(weights, options)));
  options.out = writing.place().working();
  TROUPE_ASSIGN(const auto report, checkpoint::export_weights(s, weights, options));
  TROUPE_TRY(writing.commit());
  say_written(writing, report);
  return {};
}

core::result<void> write_hugging_face(const weights_arguments& a) {
  const auto shard_bytes = checkpoint::shard_bytes_from(a.max_shard_size);
  if (!shard_bytes) return fail(shard_bytes.error().in("--max-shard-size"));
  TROUPE_ASSIGN(const auto type, dtype_from("--dtype", a.dtype));
  source_arguments from = a.source;
  from.wants_weights = true;
  TROUPE_ASSIGN(auto opened, open_to_export(from, a.model_config));
  if (!a.adapter.empty()) {
    TROUPE_ASSIGN(const auto other, merge_adapter(a.adapter, opened));
    if (other) note(a.source, "warning: " + *other);
  }
  const auto& s = opened.source;
  note_foreign_buffers(a.source, opened);
  conversion writing(a.source, a.output);
  checkpoint::weights_export_options options{
      .out = a.output.out, .is_folder = true, .max_shard_bytes = *shard_bytes, .type = type};
  options.rename = [&](const std::string& name) { return exported_name(opened, name); };
  options.progress = writing.progress();
  TROUPE_ASSIGN(const auto weights, checkpoint::weights_of(s, options));
  TROUPE_TRY(writing.prepare(s, output_kind::folder, needed_bytes(weights, options)));
  options.out = writing.place().working();
  TROUPE_ASSIGN(const auto report, checkpoint::export_weights(s, weights, options));
  const auto config = hugging_face_config(opened.model, type);
  TROUPE_TRY(storage::write_file_atomically(options.out / "config.json", config));
  TROUPE_ASSIGN(const auto missing, copy_companions(s, config, options.out));
  TROUPE_TRY(writing.commit());
  if (!missing.empty()) note(a.source, "warning: " + missing);
  say_written(writing, report);
  return {};
}

core::result<void> write_merged(const weights_arguments& a) {
  if (a.adapter.empty()) return core::refused("adapter: wanted a folder of PEFT or a GGUF file, got none");
  return write_hugging_face(a);
}

conversion_option shard_size_option(weights_arguments& a) {
  return {.name = "--max-shard-size",
          .into = &a.max_shard_size,
          .help = "largest size of one file of a folder",
          .shows_default = true};
}

std::vector<conversion_option> to_fp32_options(weights_arguments& a) {
  std::vector<conversion_option> out{shard_size_option(a)};
  add_model_options(out, a);
  out.push_back(
      {.name = "--exclude-frozen", .into = &a.exclude_frozen, .help = "leave out parameters that were not trained"});
  out.push_back(average_option(a.source));
  return out;
}

std::vector<conversion_option> to_hugging_face_options(weights_arguments& a) {
  std::vector<conversion_option> out{{.name = "--dtype",
                                      .into = &a.dtype,
                                      .help = "type of the weights",
                                      .values = "{fp32,bf16,fp16}",
                                      .shows_default = true}};
  add_model_options(out, a);
  out.push_back(shard_size_option(a));
  out.push_back(average_option(a.source));
  return out;
}

std::vector<conversion_option> merge_adapter_options(weights_arguments& a) {
  std::vector<conversion_option> out{
      {.name = "adapter", .into = &a.adapter, .help = "a folder of PEFT, or a GGUF file with an adapter"}};
  for (auto& o : to_hugging_face_options(a)) out.push_back(std::move(o));
  return out;
}

}  // namespace

constexpr written_format fp32_output{
    .command = "to-fp32",
    .help = "the weights in fp32, as DeepSpeed's zero_to_fp32.py writes them",
    .out = "NAME.safetensors, NAME.pt, NAME.pth, NAME.bin, or a folder for files with an index",
    .begin = &typed_request<weights_arguments, to_fp32_options, write_fp32>::begin};

constexpr written_format merged_output{
    .command = "merge-adapter",
    .help = "a model with an adapter of PEFT in its weights, as to-hf writes it",
    .out = "a folder",
    .begin = &typed_request<weights_arguments, merge_adapter_options, write_merged>::begin};

constexpr written_format hugging_face_output{
    .command = "to-hf",
    .help = "config.json and safetensors that transformers loads",
    .out = "a folder",
    .begin = &typed_request<weights_arguments, to_hugging_face_options, write_hugging_face>::begin};

}  // namespace troupe::apps
