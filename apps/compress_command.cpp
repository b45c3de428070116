#include "apps/compress_command.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <optional>

#include "apps/checkpoint_arguments.hpp"
#include "apps/cleaned_checkpoint.hpp"
#include "apps/common_options.hpp"
#include "apps/conversion.hpp"
#include "apps/model_description.hpp"
#include "apps/stop_request.hpp"
#include "checkpoint/convert/compress.hpp"
#include "checkpoint/convert/native_export.hpp"
#include "checkpoint/convert/weights_export.hpp"
#include "checkpoint/files/atomic_file.hpp"
#include "checkpoint/files/file_system.hpp"
#include "checkpoint/source/name_map.hpp"
#include "core/text.hpp"

namespace troupe::apps {

struct compress_arguments {
  source_arguments source;
  output_arguments output;
  std::string to, method = "rtn", dtype = "bf16", max_shard_size = "5GB", model_config;
  std::optional<uint64_t> group;
  bool asymmetric = false, clean = false;
};

namespace {

namespace fs = std::filesystem;
using core::error_kind;
using core::fail;
using core::human_bytes;

constexpr std::string_view format_prefix = "compressed-tensors:";
/// For files' headers, the index and config.json, beside the tensors.
constexpr uint64_t header_reserve_bytes = uint64_t{1} << 20;
/// What a folder of Hugging Face's may have beside its weights, and of no interest here; larger ones are refused.
constexpr std::array<const char*, 9> companions{"tokenizer.json",     "tokenizer_config.json",
                                                "tokenizer.model",    "special_tokens_map.json",
                                                "added_tokens.json",  "vocab.json",
                                                "merges.txt",         "generation_config.json",
                                                "chat_template.jinja"};
constexpr uint64_t max_companion_bytes = uint64_t{256} << 20;

core::result<checkpoint::weight_scheme> scheme_of(const compress_arguments& a, core::dtype type) {
  if (!a.to.starts_with(format_prefix))
    return fail(error_kind::bad_input, fmt::format("--to: wanted {}FORMAT, got {}", format_prefix,
                                                   a.to.empty() ? "nothing" : "'" + a.to + "'"));
  if (a.method != "rtn") return fail(error_kind::bad_input, fmt::format("--method: wanted rtn, got '{}'", a.method));
  auto scheme = checkpoint::scheme_of(
      {.format = a.to.substr(format_prefix.size()), .group_size = a.group, .asymmetric = a.asymmetric, .type = type});
  if (!scheme) return fail(scheme.error().in("--to " + a.to));
  return scheme;
}

core::result<void> check_family(const described_checkpoint& c) {
  const auto& model = c.model;
  if (model.json.empty())
    return fail(
        error_kind::bad_input,
        fmt::format("'{}' does not say which model it is of: wanted Hugging Face's config.json by --model-config",
                    c.source.folder.string()));
  if (model.model_type == "gpt2")
    return fail(error_kind::bad_input,
                "transformers' GPT-2 has Conv1D layers, whose weights are in x out, and compressed-tensors has none of "
                "them: wanted a family of linear layers (" +
                    checkpoint::families_with_linear_layers() + ")");
  if (!checkpoint::has_linear_layers(model.model_type))
    return fail(error_kind::bad_input,
                fmt::format("wanted a family of linear layers ({}), got model_type '{}'",
                            checkpoint::families_with_linear_layers(), core::shown(model.model_type)));
  return check_names(c);
}

/// Tokenizer and the like, where the source has them.
core::result<void> copy_companions(const fs::path& from, const fs::path& to) {
  for (const char* name : companions) {
    std::error_code e;
    const auto path = fs::canonical(from / name, e);  // caches of the hub keep links
    if (e || !fs::is_regular_file(path, e)) continue;
    const auto text = checkpoint::read_small_file(checkpoint::real_files(), path, max_companion_bytes);
    if (!text) return fail(text.error());
    if (auto ok = checkpoint::write_file_atomically(to / name, *text); !ok) return ok;
  }
  return {};
}

void print_layers(const checkpoint::compress_report& report) {
  size_t width = 5;
  for (const auto& l : report.layers) width = std::max(width, l.name.size());
  std::printf("%s\n", fmt::format("{:<{}}  {:>13}  {:>5}  {:>7}", "layer", width, "out x in", "bits", "error").c_str());
  for (const auto& l : report.layers)
    std::printf("%s\n", fmt::format("{:<{}}  {:>13}  {:>5.2f}  {:>6.2f}%", core::shown(l.name), width,
                                    fmt::format("{} x {}", l.rows, l.columns), l.bits, 100 * l.error)
                            .c_str());
}

/// The cleaned checkpoint as one of ours, which a run resumes, and its model's config.json.
core::result<void> write_clean(const compress_arguments& a) {
  auto opened = open_described(a.source, a.model_config);
  if (!opened) return fail(opened.error());
  const fs::path from = opened->source.folder;
  const auto cleaned = clean(std::move(*opened));
  if (!cleaned) return fail(cleaned.error());
  const auto& source = cleaned->now.source;
  conversion writing(a.source, a.output);
  const uint64_t needed = checkpoint::native_bytes(source) + header_reserve_bytes;
  if (auto ok = writing.prepare(source, output_kind::folder, needed); !ok) return ok;
  const auto progress = writing.progress();
  const auto written = checkpoint::export_native(source, writing.place().working(), progress);
  if (!written) return fail(written.error());
  if (auto ok = write_description(cleaned->now.model, writing.place().working()); !ok) return ok;
  if (auto ok = copy_companions(from, writing.place().working()); !ok) return ok;
  if (auto ok = writing.commit(); !ok) return ok;
  if (a.source.verbosity == verbosity::quiet) return {};
  print_cleaning(*cleaned);
  std::printf("troupe train CONFIG --resume %s goes on from it, with model: {path: %s} in place of its sizes\n",
              a.output.out.c_str(), a.output.out.c_str());
  return {};
}

core::result<described_checkpoint> open_to_compress(const compress_arguments& a, trained_scales& scales) {
  auto opened = open_described(a.source, a.model_config);
  if (!opened || !a.clean) return opened;
  auto cleaned = clean(std::move(*opened));
  if (!cleaned) return fail(cleaned.error());
  auto trained = trained_scales::of(*cleaned);
  if (!trained) return fail(trained.error());
  scales = std::move(*trained);
  if (a.source.verbosity != verbosity::quiet) print_cleaning(*cleaned);
  return std::move(cleaned->now);
}

void print_trained(const checkpoint::compress_report& report, const trained_scales& scales) {
  if (scales.empty()) return;
  double largest = 0;
  for (const auto& l : report.layers) largest = std::max(largest, l.largest_error);
  if (largest == 0)
    std::printf("stored values are the trained ones bit for bit\n");
  else
    std::printf("stored values differ from the trained ones by at most %.3g\n", largest);
}

core::result<void> write(const compress_arguments& a) {
  if (a.clean && a.to.empty()) return write_clean(a);
  const auto type = dtype_from("--dtype", a.dtype);
  if (!type) return fail(type.error());
  const auto scheme = scheme_of(a, *type);
  if (!scheme) return fail(scheme.error());
  const auto shard_bytes = checkpoint::shard_bytes_from(a.max_shard_size);
  if (!shard_bytes) return fail(shard_bytes.error().in("--max-shard-size"));
  trained_scales scales;
  const auto opened = open_to_compress(a, scales);
  if (!opened) return fail(opened.error());
  if (auto ok = check_family(*opened); !ok) return ok;
  const auto& [source, model] = *opened;

  conversion writing(a.source, a.output);
  checkpoint::compress_options options{.out = {}, .scheme = *scheme, .type = *type, .max_shard_bytes = *shard_bytes};
  const auto is_tied = [&source = source](const std::string& name) {
    return std::ranges::any_of(source.tied, [&](const auto& t) { return t.name == name; });
  };
  options.rename = [&, &model = model](const std::string& name) -> std::optional<std::string> {
    if (model.tied_embedding && is_tied(name)) return std::nullopt;  // transformers ties what config.json says is tied
    return checkpoint::hugging_face_name(model.model_type, name);
  };
  options.progress = writing.progress();
  if (!scales.empty())
    options.trained_scale = [&](const std::string& module, uint64_t first, uint64_t count) {
      return scales.find(module, first, count, options.scheme.bits);
    };
  const auto needed = checkpoint::compressed_bytes(source, options);
  if (!needed) return fail(needed.error());
  if (auto ok = writing.prepare(source, output_kind::folder, *needed + header_reserve_bytes); !ok) return ok;
  options.out = writing.place().working();
  const auto report = checkpoint::compress_weights(source, options);
  if (!report) return fail(report.error());
  const auto config = checkpoint::with_quantization_config(hugging_face_config(model, *type), *scheme, {"lm_head"});
  if (!config) return fail(config.error());
  if (auto ok = checkpoint::write_file_atomically(options.out / "config.json", *config); !ok) return ok;
  if (auto ok = copy_companions(source.folder, options.out); !ok) return ok;
  if (auto ok = writing.commit(); !ok) return ok;
  if (a.source.verbosity == verbosity::quiet) return {};
  print_layers(*report);
  print_trained(*report, scales);
  std::printf("%s\n", fmt::format("transformers.AutoModelForCausalLM.from_pretrained({}) opens it",
                                  core::json_string(a.output.out))
                          .c_str());
  std::printf("%s\n", fmt::format("{} -> {} ({:.1f} bits a weight)", human_bytes(report->source_bytes),
                                  human_bytes(report->tensor_bytes),
                                  8 * static_cast<double>(report->tensor_bytes) / static_cast<double>(report->weights))
                          .c_str());
  return {};
}

}  // namespace

compress_command::compress_command(CLI::App& parent)
    : command_(parent.add_subcommand("compress", "a trained model's linear layers in fewer bits, for others to run")),
      arguments_(std::make_unique<compress_arguments>()) {
  auto& a = *arguments_;
  command_->footer("Exit codes: 0 well; 1 failed; 2 arguments or SOURCE refused; 130 interrupted.");
  command_->add_option("source", a.source.path, "a checkpoint or weights, as troupe checkpoint takes them")->required();
  command_->add_option("out", a.output.out, "a folder")->required();
  command_->add_option(
      "--to", a.to,
      "compressed-tensors:FORMAT, of int4, int8 (or int2 to int7), w8a8, fp8, mxfp4, nvfp4: int8 codes of "
      "activations, too, are w8a8's");
  command_->add_flag(
      "--clean", a.clean,
      "what the run was compressed with becomes permanent first: grids and masks in the weights, related "
      "modules cut; without --to a checkpoint that a run resumes");
  command_->add_option("--method", a.method, "rtn: rounded to nearest")->capture_default_str();
  command_->add_option("--group", a.group,
                       "columns that share a scale, 0: a row; by default 128 of int2 to int7, else a row");
  command_->add_flag("--asymmetric", a.asymmetric, "groups have zero points: of int2 to int8");
  command_->add_option("--dtype", a.dtype, "of scales and of what is not compressed: fp32, bf16 or fp16")
      ->capture_default_str();
  command_->add_option("--tag", a.source.tag,
                       "which checkpoint of a folder; by default the one that its `latest` names");
  command_->add_option("--map", a.source.map, "a file that gives the tensors other names");
  command_->add_option("--model-config", a.model_config,
                       "Hugging Face's config.json of the model; by default what the checkpoint says of it");
  command_->add_option("--max-shard-size", a.max_shard_size, "of one file")->capture_default_str();
  command_->add_flag("--force", a.output.force, "replace OUT where it is what an earlier conversion wrote");
  add_quiet(*command_, a.source.verbosity);
}

compress_command::~compress_command() = default;

bool compress_command::chosen() const { return command_->parsed(); }

int compress_command::run() {
  const stop_request stop;
  return ended(write(*arguments_));
}

}  // namespace troupe::apps
