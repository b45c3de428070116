// Runs `troupe checkpoint to-gguf`: writes the checkpoint, its model and its tokenizer into one file for llama.cpp. An
// adapter of PEFT is left to adapter_to_gguf.hpp.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "apps/checkpoint/adapter_to_gguf.hpp"
#include "apps/checkpoint/conversion.hpp"
#include "apps/checkpoint/described_checkpoint.hpp"
#include "apps/checkpoint/gguf_keys.hpp"
#include "apps/checkpoint/written_formats.hpp"
#include "checkpoint/convert/gguf_export.hpp"
#include "core/text.hpp"

namespace troupe::apps {
namespace {

struct gguf_arguments : conversion_arguments {
  std::string type = "q8_0";
  std::string tokenizer;  ///< path of the tokenizer, or `bytes`; empty: the checkpoint's own
};

void say_written(const conversion& writing, const checkpoint::gguf_export_report& r) {
  std::string line = fmt::format("{} tensors, {}", r.tensors, core::human_bytes(static_cast<double>(r.bytes)));
  if (r.quantised_elements > 0)
    line += fmt::format(", {:.2f} bits a quantised weight",
                        8.0 * static_cast<double>(r.quantised_bytes) / static_cast<double>(r.quantised_elements));
  for (const auto& [type, count] : r.other_types)
    line += fmt::format(", {} of rows that are not whole blocks as {}", count, type);
  writing.say(line);
}

core::result<void> write_gguf(const gguf_arguments& a) {
  if (holds_adapter_alone(a.source.path)) {
    const bool has_type = std::ranges::find(a.given, "--type") != a.given.end();
    return write_adapter_gguf(a, has_type ? a.type : std::string());
  }
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

std::vector<conversion_option> to_gguf_options(gguf_arguments& a) {
  std::vector<conversion_option> out{
      {.name = "--type",
       .into = &a.type,
       .help = "type of the matrices; of an adapter f32, f16 or bf16, by default f32",
       .values = "{" + fmt::format("{}", fmt::join(formats::all_mixtures(), ",")) + "}",
       .shows_default = true},
      {.name = "--tokenizer",
       .into = &a.tokenizer,
       .help = "a tokenizer.model, tokenizer.json, vocab.json, a folder with one, or 'bytes'; by default the one "
               "next to the weights, or the one that the run was trained with"}};
  add_model_options(out, a);
  out.push_back(average_option(a.source));
  return out;
}

}  // namespace

constexpr written_format gguf_output{
    .command = "to-gguf",
    .help = "one file that llama.cpp loads, with its vocabulary; or an adapter of PEFT",
    .out = "a file, NAME.gguf",
    .begin = &typed_request<gguf_arguments, to_gguf_options, write_gguf>::begin};

}  // namespace troupe::apps
