// Runs `troupe checkpoint to-gguf`: writes the checkpoint, its model and its tokenizer into one file for llama.cpp.
#include <fmt/format.h>

#include "apps/checkpoint/checkpoint_convert.hpp"
#include "apps/checkpoint/conversion.hpp"
#include "apps/checkpoint/gguf_options.hpp"
#include "apps/checkpoint/model_description.hpp"
#include "checkpoint/convert/gguf_export.hpp"
#include "core/text.hpp"

namespace troupe::apps {
namespace {

using core::error_kind;
using core::fail;

void say_written(const conversion& writing, const checkpoint::gguf_export_report& r) {
  std::string line = fmt::format("{} tensors, {}", r.tensors, core::human_bytes(static_cast<double>(r.bytes)));
  if (r.quantised_elements > 0)
    line += fmt::format(", {:.2f} bits a quantised weight",
                        8.0 * static_cast<double>(r.quantised_bytes) / static_cast<double>(r.quantised_elements));
  for (const auto& [type, count] : r.other_types)
    line += fmt::format(", {} of rows that are no whole blocks as {}", count, type);
  writing.say(line);
}

}  // namespace

core::result<void> write_gguf(const gguf_arguments& a) {
  const auto type = checkpoint::mixture_from(a.type);
  if (!type)
    return fail(error_kind::bad_input,
                fmt::format("--type: wanted one of {}, got '{}'", checkpoint::mixture_names(), core::shown(a.type)));
  source_arguments from = a.source;
  from.wants_weights = true;
  const auto opened = open_described(from, a.model_config);
  if (!opened) return fail(opened.error());
  const auto& s = opened->source;
  auto options = gguf_options_of(*opened, *type, a.tokenizer);
  if (!options) return fail(options.error());
  conversion writing(a.source, a.output);
  options->progress = writing.progress();
  const auto needed = checkpoint::gguf_bytes(s, *options);
  if (!needed) return fail(needed.error());
  if (auto ok = writing.prepare(s, output_kind::file, *needed); !ok) return ok;
  options->out = writing.place().working();
  const auto report = checkpoint::export_gguf(s, *options);
  if (!report) return fail(report.error());
  if (auto ok = writing.commit(); !ok) return ok;
  say_written(writing, *report);
  return {};
}

}  // namespace troupe::apps
