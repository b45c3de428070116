// Runs `troupe checkpoint to-gguf`: writes the checkpoint, its model and its tokenizer into one file for llama.cpp.
#include <fmt/format.h>

#include "apps/checkpoint/checkpoint_convert.hpp"
#include "apps/checkpoint/conversion.hpp"
#include "apps/checkpoint/described_checkpoint.hpp"
#include "apps/checkpoint/gguf_keys.hpp"
#include "checkpoint/convert/gguf_export.hpp"
#include "core/text.hpp"

namespace troupe::apps {
namespace {

void say_written(const conversion& writing, const checkpoint::gguf_export_report& r) {
  std::string line = fmt::format("{} tensors, {}", r.tensors, core::human_bytes(static_cast<double>(r.bytes)));
  if (r.quantised_elements > 0)
    line += fmt::format(", {:.2f} bits a quantised weight",
                        8.0 * static_cast<double>(r.quantised_bytes) / static_cast<double>(r.quantised_elements));
  for (const auto& [type, count] : r.other_types)
    line += fmt::format(", {} of rows that are not whole blocks as {}", count, type);
  writing.say(line);
}

}  // namespace

core::result<void> write_gguf(const gguf_arguments& a) {
  const auto type = formats::mixture_from(a.type);
  if (!type)
    return fail(error_kind::bad_input,
                fmt::format("--type: wanted one of {}, got '{}'", formats::mixture_names(), core::shown(a.type)));
  source_arguments from = a.source;
  from.wants_weights = true;
  TROUPE_ASSIGN(const auto opened, open_described(from, a.model_config));
  const auto& s = opened.source;
  note_unclean(a.source, s);
  TROUPE_ASSIGN(auto options, gguf_options_of(a.source, opened, *type, a.tokenizer));
  conversion writing(a.source, a.output);
  options.progress = writing.progress();
  TROUPE_ASSIGN(const auto needed, checkpoint::gguf_bytes(s, options));
  TROUPE_TRY(writing.prepare(s, output_kind::file, needed));
  options.out = writing.place().working();
  TROUPE_ASSIGN(const auto report, checkpoint::export_gguf(s, options));
  TROUPE_TRY(writing.commit());
  say_written(writing, report);
  return {};
}

}  // namespace troupe::apps
