#include "apps/checkpoint_convert.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "apps/model_description.hpp"
#include "apps/output_place.hpp"
#include "apps/stop_request.hpp"
#include "apps/work_display.hpp"
#include "checkpoint/name_map.hpp"
#include "checkpoint/source_inspect.hpp"
#include "checkpoint/weights_export.hpp"
#include "core/tensor_view.hpp"

namespace troupe::apps {
namespace {

namespace fs = std::filesystem;
using checkpoint::human_bytes;
using core::error_kind;
using core::fail;

/// For files' headers, paddings and the index, beside the tensors.
constexpr uint64_t header_reserve_bytes = uint64_t{1} << 20;

void say_written(const weights_arguments& a, const checkpoint::weights_export_report& r, const work_display& display) {
  if (a.source.quiet) return;
  const double seconds = std::max(display.seconds(), 1e-9);
  std::printf("%s\n", fmt::format("{}: {} tensor{}, {} in {} file{}, {:.1f} s, {}/s", a.output.out, r.tensors,
                                  r.tensors == 1 ? "" : "s", human_bytes(r.tensor_bytes), r.files.size(),
                                  r.files.size() == 1 ? "" : "s", seconds,
                                  human_bytes(static_cast<uint64_t>(static_cast<double>(r.tensor_bytes) / seconds)))
                          .c_str());
}

core::result<uint64_t> needed_bytes(const checkpoint::tensor_source& s, const checkpoint::weights_export_options& o) {
  const auto weights = checkpoint::weights_of(s, o);
  if (!weights) return fail(weights.error());
  uint64_t out = header_reserve_bytes;
  for (const auto& w : *weights) out += core::numel_of(w.from->shape) * core::size_of(w.type);
  return out;
}

bool is_one_file(const fs::path& out) {
  const auto ending = out.extension();
  return ending == ".safetensors" || ending == ".pt" || ending == ".bin";
}

core::result<void> write_fp32(const weights_arguments& a) {
  const auto shard_bytes = checkpoint::shard_bytes_from(a.max_shard_size);
  if (!shard_bytes) return fail(shard_bytes.error().in("--max-shard-size"));
  const auto s = open_checkpoint_at(a.source);
  if (!s) return fail(s.error());
  work_display display("writing", a.source.quiet);
  checkpoint::weights_export_options options{.out = a.output.out,
                                             .max_shard_bytes = *shard_bytes,
                                             .exclude_frozen = a.exclude_frozen,
                                             .progress = display.progress()};
  const auto needed = needed_bytes(*s, options);
  if (!needed) return fail(needed.error());
  core::result<checkpoint::weights_export_report> report;
  if (is_one_file(a.output.out)) {
    if (auto ok = check_output_file(a.output.out, a.output.force, *needed); !ok) return ok;
    report = checkpoint::export_weights(*s, options);
  } else {
    auto place = output_folder::prepare(a.output.out, a.output.force, *needed, s->folder);
    if (!place) return fail(place.error());
    options.out = place->working();
    report = checkpoint::export_weights(*s, options);
    if (report)
      if (auto ok = place->commit(); !ok) return ok;
  }
  display.clear();
  if (!report) return fail(report.error());
  say_written(a, *report, display);
  return {};
}

core::result<void> write_hugging_face(const weights_arguments& a) {
  const auto shard_bytes = checkpoint::shard_bytes_from(a.max_shard_size);
  if (!shard_bytes) return fail(shard_bytes.error().in("--max-shard-size"));
  const auto type = dtype_from("--dtype", a.dtype);
  if (!type) return fail(type.error());
  const auto s = open_checkpoint_at(a.source);
  if (!s) return fail(s.error());
  const auto model = describe_model(*s, a.model_config);
  if (!model) return fail(model.error());
  if (model->json.empty())
    return fail(
        error_kind::bad_input,
        fmt::format("'{}' does not say which model it is of: wanted Hugging Face's config.json by --model-config",
                    s->folder.string()));
  work_display display("writing", a.source.quiet);
  const auto is_tied = [&](const std::string& name) {
    return std::any_of(s->tied.begin(), s->tied.end(), [&](const auto& t) { return t.name == name; });
  };
  checkpoint::weights_export_options options{.out = a.output.out, .max_shard_bytes = *shard_bytes, .type = *type};
  // transformers ties what the configuration says is tied, and wants it once.
  options.rename = [&](const std::string& name) -> std::optional<std::string> {
    if (model->tied_embedding && is_tied(name)) return std::nullopt;
    return checkpoint::hugging_face_name(model->model_type, name);
  };
  options.progress = display.progress();
  const auto needed = needed_bytes(*s, options);
  if (!needed) return fail(needed.error());
  auto place = output_folder::prepare(a.output.out, a.output.force, *needed, s->folder);
  if (!place) return fail(place.error());
  options.out = place->working();
  const auto report = checkpoint::export_weights(*s, options);
  display.clear();
  if (!report) return fail(report.error());
  const auto config = place->working() / "config.json";
  if (auto ok = checkpoint::write_file_atomically(config, hugging_face_config(*model, *type)); !ok) return ok;
  if (auto ok = place->commit(); !ok) return ok;
  say_written(a, *report, display);
  return {};
}

}  // namespace

int to_fp32(const weights_arguments& a) {
  const stop_request stop;
  return ended(write_fp32(a));
}

int to_hugging_face(const weights_arguments& a) {
  const stop_request stop;
  return ended(write_hugging_face(a));
}

}  // namespace troupe::apps
